// Unpacks the source of llama.cpp, in the version of node-llama-cpp, from the git bundle in that package into
// build/llama.cpp. Uses: conversion of models (src/machine/models/convert.ts), comparison in tests, llama-batched-bench in the
// benchmark. `node scripts/llama-source.mjs` prints the folder.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { sourceOf } from "./sources.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "build", "llama.cpp");
const mark = join(target, ".node-llama-cpp-version");
const version = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).dependencies["node-llama-cpp"];

function bundleFile() {
  try {
    return join(sourceOf("node-llama-cpp"), "llama/gitRelease.bundle");
  } catch (error) {
    console.error(`llama.cpp's source is not there: ${error.message}`);
    process.exit(1);
  }
}

const ready = () => existsSync(mark) && readFileSync(mark, "utf8") === version;

if (!ready()) {
  // Made in a temporary folder and renamed, so that a concurrent process never sees half of it.
  const aside = `${target}.${process.pid}`;
  mkdirSync(dirname(target), { recursive: true });
  const bundle = bundleFile();
  // The bundle may belong to another user.
  const git = ["-c", "safe.directory=*", "-c", "advice.detachedHead=false"];
  const cloned = spawnSync("git", [...git, "clone", "--quiet", bundle, aside], { encoding: "utf8" });
  if (cloned.status !== 0) {
    const why = cloned.error ? "git is not installed" : cloned.stderr.trim().split("\n").at(-1);
    console.error(`llama.cpp's source could not be unpacked: ${why}`);
    process.exit(1);
  }
  rmSync(join(aside, ".git"), { recursive: true, force: true });
  writeFileSync(join(aside, ".node-llama-cpp-version"), version);
  if (!ready()) {
    rmSync(target, { recursive: true, force: true });
    renameSync(aside, target);
  } else rmSync(aside, { recursive: true });
}
console.log(target);
