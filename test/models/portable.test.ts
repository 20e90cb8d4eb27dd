/** A model's files on another machine: found there by the same name, without the Hub, Python or the converter. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { safetensors, vector } from "../../src/core/learn/safetensors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { PORTABLE, portableModel } from "../../src/machine/models/portable.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import type { ModelConfig } from "../../src/machine/models/wanted.js";
import { HubServer } from "../support/hub-server.js";

const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const whole = {
  "config.json": json({ model_type: "qwen2", architectures: ["Qwen2ForCausalLM"] }),
  "tokenizer.json": json({}),
  "tokenizer_config.json": json({ chat_template: "{{ messages }}" }),
  "model.safetensors": safetensors({ a: vector("F32", [1, 2, 3, 4]) }, {}),
  "README.md": Buffer.from("# not needed"),
};
const tiny = join(packageRoot, "models/tiny/tiny.gguf");

let folder: string;
let server: HubServer;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "hone-portable-"));
  server = new HubServer({ "Org/File": { "one.gguf": readFileSync(tiny), "README.md": json({}) }, "Org/Whole": whole });
  await server.start();
});
afterEach(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

const io = { log: () => undefined, update: () => undefined };
const config = (more: Partial<ModelConfig> = {}): ModelConfig => ({
  home: join(folder, "state"),
  weights: undefined,
  python: "/nowhere/python",
  torchIndex: undefined,
  hfEndpoint: server.endpoint,
  hfToken: undefined,
  hfOffline: false,
  hfHome: join(folder, "hf"),
  hfCache: undefined,
  ...more,
});

/** Puts the files of a model where they are on the other machine, and asks for it there. */
async function there(reference: string, more: Partial<ModelConfig> = {}): Promise<{ path: string; paths: string[] }> {
  const { name, files } = await portableModel(reference, config(more), io);
  const asked = server.requests.length;
  const machine = join(folder, "machine");
  for (const one of files) {
    const target = join(machine, one.path);
    mkdirSync(dirname(target), { recursive: true });
    if ("link" in one) symlinkSync(one.link, target);
    else if ("text" in one) writeFileSync(target, one.text);
    else {
      copyFileSync(one.file, target);
      utimesSync(target, 1, 1);
    }
  }
  rmSync(join(folder, "hf"), { recursive: true, force: true });
  rmSync(join(folder, "state"), { recursive: true, force: true });
  const onlyHere = { hfOffline: true, hfCache: join(machine, PORTABLE.cache), home: join(machine, PORTABLE.home) };
  const given = name.startsWith(PORTABLE.models) ? join(machine, name) : name;
  const path = await resolveModel(given, config(onlyHere), io);
  expect(server.requests).toHaveLength(asked);
  expect(path.startsWith(machine)).toBe(true);
  return { path, paths: files.map((one) => one.path) };
}

it("a GGUF file of the Hub", async () => {
  const { path, paths } = await there("hf:Org/File:one.gguf");
  expect(readFileSync(path).equals(readFileSync(tiny))).toBe(true);
  // Its blob, its name, and the branch.
  expect(paths).toHaveLength(3);
});

it("a model that was converted, with what it was made from, and without what hone does not read", async () => {
  const python = join(folder, "python");
  // In the converter's place: the file that it would make.
  writeFileSync(
    python,
    `#!/bin/bash
case "$*" in
  *version_info*) echo 3 12;;
  *--outfile*) while [ "$1" != --outfile ]; do shift; done; cp "${tiny}" "$2";;
esac
`,
  );
  chmodSync(python, 0o755);
  const { path, paths } = await there("Org/Whole", { python });
  expect(path).toMatch(/\.hone\/gguf\/Org--Whole-f16-[0-9a-f]{12}\.gguf$/);
  const names = paths.filter((one) => one.includes("/snapshots/")).map((one) => one.split("/").at(-1));
  expect(names.sort()).toEqual(
    Object.keys(whole)
      .filter((name) => name !== "README.md")
      .sort(),
  );
});

it("a file of this machine, by its name in the folder of models", async () => {
  const mine = join(folder, "mine.gguf");
  copyFileSync(tiny, mine);
  const { path, paths } = await there(mine);
  expect(paths).toEqual(["models/mine.gguf"]);
  expect(path).toBe(join(folder, "machine/models/mine.gguf"));
});
