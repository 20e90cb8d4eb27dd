// Compiles the files of a platform's package by node-gyp: the engine's addon, and SQLite for each version of Node's binary
// interface. For Linux zig is the compiler (`pip install ziglang`): it has the symbols of every glibc, and compiles for
// another processor too.
import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { checkElf } from "./elf.mjs";
import { NODES } from "./platforms.mjs";
import { npm, PackageError, root, run, work } from "./run.mjs";

const require = createRequire(import.meta.url);
const folderOf = (name) => dirname(require.resolve(`${name}/package.json`));

/** HONE_ZIG, or the program of the Python package. */
function zig() {
  const find = "import ziglang, os; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
  const { status, stdout } = spawnSync("python3", ["-c", find], { encoding: "utf8" });
  const program = process.env.HONE_ZIG ?? (status === 0 ? stdout.trim() : undefined);
  if (program) return program;
  throw new PackageError("zig is missing: pip install ziglang==0.17.1, or HONE_ZIG=FILE");
}

/** The compiler of a platform, for node-gyp. */
function environment(platform) {
  // A setting of the user's for node-gyp would be stronger than the arguments.
  const { npm_config_nodedir: _, ...env } = process.env;
  if (platform.zig === undefined) return env;
  const cross = `-target ${platform.zig}`;
  return {
    ...env,
    CC: `${zig()} cc ${cross}`,
    CXX: `${zig()} c++ ${cross}`,
    AR: `${zig()} ar`,
    LDFLAGS: "-s",
  };
}

/** Node's headers with the settings of that platform's build, from npm; undefined where node-gyp fetches them itself. */
function headersOf({ zig: byZig, cpu }, version) {
  if (byZig === undefined) return undefined;
  const folder = join(work, "node", `${version}-${cpu}`);
  if (existsSync(join(folder, "include/node/node_api.h"))) return folder;
  const aside = `${folder}.${process.pid}`;
  mkdirSync(aside, { recursive: true });
  npm(["pack", "--silent", `node-linux-${cpu}@${version}`, "--pack-destination", aside], aside);
  const tarball = join(aside, `node-linux-${cpu}-${version}.tgz`);
  run("tar", ["xzf", tarball, "-C", aside, "--strip-components=1", "package/include"]);
  rmSync(tarball);
  rmSync(folder, { recursive: true, force: true });
  cpSync(aside, folder, { recursive: true });
  rmSync(aside, { recursive: true });
  return folder;
}

function gyp(platform, folder, version) {
  const headers = headersOf(platform, version);
  const args = ["configure", "build", "--release", `--arch=${platform.cpu}`, "--jobs=1"];
  // One path for all versions, so that what does not depend on Node is compiled once.
  const nodedir = join(folder, "node");
  if (headers !== undefined) {
    rmSync(nodedir, { recursive: true, force: true });
    cpSync(join(headers, "include"), join(nodedir, "include"), { recursive: true });
  }
  const from = headers === undefined ? `--target=${version}` : `--nodedir=${nodedir}`;
  const program = join(folderOf("node-gyp"), "bin/node-gyp.js");
  run(process.execPath, [program, ...args, from], { cwd: folder, env: environment(platform) });
}

/** A folder to compile in, with some files of another one. */
function ground(platform, name, from, files) {
  const folder = join(work, platform.name, name);
  mkdirSync(folder, { recursive: true });
  for (const file of files) {
    rmSync(join(folder, file), { recursive: true, force: true });
    cpSync(join(from, file), join(folder, file), { recursive: true, preserveTimestamps: true });
  }
  return folder;
}

/**
 * @param into folder of the platform's package
 * @returns names of the files
 */
export function compile(platform, into, log) {
  const made = [];
  const take = (file, name) => {
    copyFileSync(file, join(into, name));
    if (platform.zig !== undefined) checkElf(join(into, name));
    made.push(name);
  };
  log(`${platform.name}: the engine's addon`);
  // The addon's build asks the checkout for llama.cpp's headers and version.
  run(process.execPath, [join(root, "scripts/build-addon.mjs"), "--print-llama-version"]);
  const engine = ground(platform, "engine", root, ["binding.gyp", "package.json", "native/engine"]);
  for (const [link, target] of [
    ["scripts", join(root, "scripts")],
    ["build/llama", join(root, "build/llama")],
  ]) {
    mkdirSync(dirname(join(engine, link)), { recursive: true });
    if (!existsSync(join(engine, link))) symlinkSync(target, join(engine, link), "junction");
  }
  gyp(platform, engine, NODES[0].version);
  take(join(engine, "build/Release/hone_engine.node"), "hone_engine.node");
  const sqlite = ground(platform, "sqlite", folderOf("better-sqlite3"), [
    "binding.gyp",
    "package.json",
    "src",
    "deps",
    "lib",
  ]);
  // zig's linker does not know this argument. What it hides is not visible there anyway, or bound to the file by -Bsymbolic.
  const rules = join(sqlite, "binding.gyp");
  if (platform.zig !== undefined)
    writeFileSync(rules, readFileSync(rules, "utf8").replace(/'-Wl,--exclude-libs,ALL',/, ""));
  for (const { version, abi } of NODES) {
    log(`${platform.name}: SQLite for Node ${version.split(".")[0]}`);
    gyp(platform, sqlite, version);
    take(join(sqlite, "build/Release/better_sqlite3.node"), `better_sqlite3-${abi}.node`);
  }
  return made;
}
