/** A finished GGUF file whose weights are written anew, once, beside the conversions. */
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { UsageError } from "../../src/core/util/errors.js";
import { modelShape } from "../../src/engine/models.js";
import { removeModel, showModel } from "../../src/machine/models/installed.js";
import type { ModelIo } from "../../src/machine/models/io.js";
import { portableModel } from "../../src/machine/models/portable.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import type { ModelConfig } from "../../src/machine/models/wanted.js";
import { HubServer } from "../support/hub-server.js";
import { ensureLearnerPython } from "../support/python.js";

let python: string;
let folder: string;
let file: string;
let said: string[];
const io: ModelIo = { log: (line) => said.push(line), update: () => undefined };

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  python = await ensureLearnerPython();
}, 900_000);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-dequantise-"));
  said = [];
  file = join(folder, "mine.gguf");
  copyFileSync(modelPath("qwen2-tiny-q8_0.gguf"), file);
});
afterEach(() => rmSync(folder, { recursive: true }));

const config = (more: Partial<ModelConfig> = {}): ModelConfig => ({
  home: join(folder, "state"),
  weights: "f16",
  python,
  torchIndex: undefined,
  hfEndpoint: "http://127.0.0.1:1",
  hfToken: undefined,
  hfOffline: false,
  hfHome: join(folder, "hf"),
  hfCache: undefined,
  ...more,
});
const resolved = (more?: Partial<ModelConfig>, signal?: AbortSignal) =>
  resolveModel(file, config(more), { ...io, ...(signal ? { signal } : {}) });
const kept = () => {
  const place = join(folder, "state/gguf");
  return existsSync(place) ? readdirSync(place).filter((name) => name !== ".lock") : [];
};

/** In Python's place: a program that does this with the file that it is to write, whose path is "$out". */
function inPlaceOfPython(what: string): string {
  const program = join(folder, "python");
  writeFileSync(
    program,
    `#!/bin/bash
case "$*" in
  *version_info*) echo 3 12;;
  *learner.dequantise*) out="$4"; ${what};;
esac
`,
  );
  chmodSync(program, 0o755);
  return program;
}

it("is written once, and taken from then on without Python", async () => {
  const made = await resolved();
  expect(made).toMatch(/state\/gguf\/mine-[0-9a-f]{8}-f16-[0-9a-f]{12}\.gguf$/);
  expect((await modelShape(made)).weightType).toBe("F16");
  expect(said[0]).toBe("writing the q8_0 weights of mine.gguf as f16, once");
  const { ino } = statSync(made);
  expect(await resolved({ python: "/nowhere/python" })).toBe(made);
  expect(statSync(made).ino).toBe(ino);
  expect(await resolveModel(made, config({ python: "/nowhere/python" }), io)).toBe(made);
});

it("is the file itself where its weights are wanted, or none are", async () => {
  expect(await resolved({ weights: undefined, python: "/nowhere/python" })).toBe(file);
  expect(await resolved({ weights: "q8_0", python: "/nowhere/python" })).toBe(file);
});

it("is written anew when the file has changed", async () => {
  const made = await resolved({ weights: "bf16" });
  appendFileSync(file, "\0");
  expect(await resolved({ weights: "bf16" })).not.toBe(made);
});

it("cannot be quantised: that is said before Python is asked for", async () => {
  copyFileSync(modelPath("qwen2-tiny-f16.gguf"), file);
  const refused = resolved({ weights: "q8_0", python: "/nowhere/python" });
  await expect(refused).rejects.toThrow(UsageError);
  await expect(refused).rejects.toThrow(/--weights q8_0: .*mine\.gguf is a finished file with f16 weights, which hone/);
});

it("leaves nothing behind when the disk is full, and when it is interrupted", async () => {
  const full = inPlaceOfPython('echo x > "$out"; echo "OSError: [Errno 28] No space left on device" >&2; exit 1');
  await expect(resolved({ python: full })).rejects.toThrow("the disk filled up while mine.gguf was converted");
  expect(kept()).toEqual([]);
  const stop = new AbortController();
  const slow = resolved({ python: inPlaceOfPython('echo x > "$out"; exec sleep 30') }, stop.signal);
  const stopped = expect(slow).rejects.toThrow("stopped");
  await expect.poll(kept).not.toEqual([]);
  stop.abort(new Error("stopped"));
  await stopped;
  expect(kept()).toEqual([]);
});

it("takes neither what a killed process left, nor a file that is no model", async () => {
  const made = await resolved();
  rmSync(made);
  mkdirSync(dirname(made), { recursive: true });
  writeFileSync(`${made}.123.part`, "the beginning of it");
  const broken = inPlaceOfPython('head -c 1000 "$3" > "$out"');
  await expect(resolved({ python: broken })).rejects.toThrow(/is not a GGUF model: it ends within its header$/);
  expect(kept()).toEqual([]);
  expect(await resolved()).toBe(made);
  expect(kept()).toHaveLength(1);
});

it("says what is wrong with weights that cannot be written", async () => {
  const refused = inPlaceOfPython('echo "blk.0.ffn_up.weight has weights that are not finite" >&2; exit 1');
  await expect(resolved({ python: refused })).rejects.toThrow(
    /mine\.gguf cannot be written as f16: blk\.0\.ffn_up\.weight has weights that are not finite$/,
  );
});

it("is shown with its file, and removed without it", async () => {
  const made = await resolved();
  expect((await showModel(file, config())).files).toEqual([file, made]);
  expect(removeModel(file, config())).toMatchObject({ removed: [made] });
  expect([existsSync(file), existsSync(made)]).toEqual([true, false]);
  expect(() => removeModel(file, config())).toThrow("is a file that hone neither downloaded nor made; it stays");
});

it("goes to another machine with the file of the Hub that it was made from", async () => {
  const server = new HubServer({ "Org/File": { "one.gguf": readFileSync(file) } });
  await server.start();
  try {
    const { files } = await portableModel("hf:Org/File:one.gguf", config({ hfEndpoint: server.endpoint }), io);
    expect(files.map(({ path }) => path)).toEqual([
      expect.stringMatching(/^hub\/models--Org--File\/blobs\//),
      expect.stringMatching(/^hub\/models--Org--File\/snapshots\/.*\/one\.gguf$/),
      "hub/models--Org--File/refs/main",
      expect.stringMatching(/^\.hone\/gguf\/Org--File-f16-[0-9a-f]{12}\.gguf$/),
    ]);
  } finally {
    await server.stop();
  }
});
