/** Damaged model files end in one line, never in the process's end. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { checkSound, modelFile, modelHeader } from "../../src/engine/models.js";
import { whyUnsoundAdapter } from "../../src/engine/soundness.js";
import { tokenBytes } from "../../src/engine/vocabulary.js";
import { adapterPath, newModel, testEngine } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "hone-damaged-"));
afterAll(() => rmSync(folder, { recursive: true }));

const TINY = modelFile("tiny");
const SMALL = modelPath("qwen2-tiny-f16.gguf");
beforeAll(() => ensureTestModels(["tiny"], () => undefined));

interface Outcome {
  readonly what: string;
  readonly outcome?: "loaded" | "refused" | "trace";
  readonly message?: string;
}

/** What became of `count` mutants of a model file. */
function damage(file: string, seed: number, count: number): Outcome[] {
  const fuzz = join(packageRoot, "test/engine/damaged-fuzz.mjs");
  const args = [fuzz, file, folder, String(seed), "0", String(count)];
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, args, {
    ...{ encoding: "utf8", maxBuffer: 1 << 28 },
  });
  const lines = stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Outcome);
  expect([status, signal], `${lines.at(-1)?.what}: ${stderr.slice(-500)}`).toEqual([0, null]);
  return lines.filter(({ outcome }) => outcome !== undefined);
}

describe("a header damaged at random", () => {
  const full = process.env.TEST_FULL ? 20 : 1;
  it.each([
    [SMALL, 1, 100 * full],
    [TINY, 2, 40 * full],
  ])("of %s is refused in one line, or loads", (file, seed, count) => {
    const outcomes = damage(file, seed, count);
    expect(outcomes).toHaveLength(count);
    expect(outcomes.filter(({ outcome }) => outcome === "trace")).toEqual([]);
    const messages = outcomes.flatMap(({ outcome, message = "" }) => (outcome === "refused" ? [message] : []));
    expect(messages.length).toBeGreaterThan(count / 2);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: there must be none.
    expect(messages.filter((message) => /[\u0000-\u001f]/.test(message) || message === "")).toEqual([]);
  });
});

it("a header that is longer than what is read of it at first is read like others", async () => {
  const bytes = readFileSync(SMALL);
  const about = await modelHeader(SMALL);
  const keys = Number(bytes.readBigUInt64LE(16));
  for (let more = 0; more < 16; more++) {
    // A key in front of the others, which ends a few bytes before the first MiB does.
    const key = Buffer.alloc(8 + 1 + 4 + 8);
    const length = (1 << 20) - 24 - key.length - more;
    key.writeBigUInt64LE(1n);
    key.write("x", 8);
    key.writeUInt32LE(8, 9);
    key.writeBigUInt64LE(BigInt(length), 13);
    const head = Buffer.from(bytes.subarray(0, 24));
    head.writeBigUInt64LE(BigInt(keys + 1), 16);
    const file = join(folder, "long.gguf");
    writeFileSync(file, Buffer.concat([head, key, Buffer.alloc(length, "x"), bytes.subarray(24)]));
    expect({ ...(await modelHeader(file)), bytes: about.bytes }).toEqual(about);
  }
});

describe("what llama.cpp would end the process for is named", () => {
  /** The model with other bytes behind a text in its header. */
  function changed(text: string, change: (bytes: Buffer, at: number) => void): string {
    const bytes = readFileSync(SMALL);
    const at = bytes.indexOf(text) + Buffer.byteLength(text);
    change(bytes, at);
    const file = join(folder, "changed.gguf");
    writeFileSync(file, bytes);
    return file;
  }
  /** A key's value lies behind its type. */
  const number = (value: number) => (bytes: Buffer, at: number) => bytes.writeUInt32LE(value, at + 4);
  const real = (value: number) => (bytes: Buffer, at: number) => bytes.writeFloatLE(value, at + 4);

  it.each([
    ["qwen2.block_count", number(0), "its block_count is 0"],
    ["qwen2.block_count", number(2 ** 31), "its block_count is 2147483648"],
    ["layer_norm_rms_epsilon", real(-1), "its attention.layer_norm_rms_epsilon is -1"],
    ["layer_norm_rms_epsilon", real(Number.NaN), "its attention.layer_norm_rms_epsilon is NaN"],
    ["attention.head_count_kv", number(3), "it has 4 heads of attention and 3 of keys and values"],
    [
      "blk.1.attn_norm.weight",
      (bytes: Buffer, at: number) => bytes.writeUInt32LE(1, at + 4 + 8),
      'its tensor "blk.1.attn_norm.weight" is in F16, and one row must be in F32',
    ],
    [
      "blk.1.ffn_up.weight",
      (bytes: Buffer, at: number) => bytes.writeUInt32LE(26, at + 4 + 16),
      'its tensor "blk.1.ffn_up.weight" is of a type that holds no weights',
    ],
    [
      "tokenizer.ggml.tokens",
      (bytes: Buffer, at: number) => bytes.copy(bytes, at + 16 + 9, at + 16, at + 16 + 9),
      "two of its tokens have the same text",
    ],
  ] as const)("of %s: %#", (text, change, why) => {
    const file = changed(text, change);
    expect(() => checkSound(file)).toThrow(`${file} is damaged: ${why}; download or copy it again`);
  });

  it("an array of arrays, and a length that the file has not", async () => {
    const nested = changed("tokenizer.ggml.merges", (bytes, at) => bytes.writeUInt32LE(9, at + 4));
    await expect(modelHeader(nested)).rejects.toThrow(
      `${nested} is not a GGUF model: "tokenizer.ggml.merges" is an array of arrays`,
    );
    const long = changed("tokenizer.ggml.token_type", (bytes, at) => bytes.writeBigUInt64LE(2n ** 40n, at + 8));
    await expect(modelHeader(long)).rejects.toThrow(`${long} is not a GGUF model: it ends within its header`);
    await expect(tokenBytes(folder)).rejects.toThrow(/is not a GGUF model: /);
  });

  it.each([
    ["is of a type that holds no weights", (bytes: Buffer, at: number) => bytes.writeUInt32LE(26, at + 4 + 16)],
    ["is empty", (bytes: Buffer, at: number) => bytes.writeBigUInt64LE(0n, at + 4 + 8)],
  ])("of an adapter, whose tensor %s, before llama.cpp has it", async (why, change) => {
    const file = adapterPath(`damaged-${why.length}`);
    const name = "blk.1.ffn_up.weight.lora_a";
    const bytes = readFileSync(file);
    change(bytes, bytes.indexOf(name) + name.length);
    writeFileSync(file, bytes);
    const engine = await testEngine();
    await expect(engine.useAdapter(file)).rejects.toThrow(
      `the adapter ${file} is damaged: its tensor "${name}" ${why}`,
    );
    await expect(engine.useAdapter(adapterPath("whole"))).resolves.toBeUndefined();
  });

  it("of an adapter with more than two dimensions", () => {
    const tensor = { name: "blk.0.attn_q.weight.lora_a", type: "F32", dimensions: [128, 4, 1, 4096] };
    expect(whyUnsoundAdapter({ values: new Map(), tensors: [tensor] })).toBe(
      'its tensor "blk.0.attn_q.weight.lora_a" is no matrix',
    );
    expect(
      whyUnsoundAdapter({ values: new Map(), tensors: [{ ...tensor, dimensions: [128, 4, 1, 1] }] }),
    ).toBeUndefined();
  });

  it("and models that are whole are taken", () => {
    for (const file of [TINY, SMALL, newModel()]) {
      expect(() => checkSound(file)).not.toThrow();
    }
    expect(() => checkSound(adapterPath("one"))).not.toThrow();
  });
});
