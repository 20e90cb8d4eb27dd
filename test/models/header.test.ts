/** What a GGUF file's header says is refused before anything is loaded or played. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { KEPT_WEIGHTS, KNOWN_TENSORS, READABLE_WEIGHTS } from "../../src/core/learn/types.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type ModelShape, modelFile, modelHeader, trainedContext } from "../../src/engine/models.js";
import { MODEL_TYPES } from "../../src/machine/architectures.js";
import { checkTrainable } from "../../src/machine/models/header.js";
import { shapeInFolder } from "../../src/machine/models/source.js";
import { CommandLine } from "../support/command-line.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-header-"));
let python: string;
beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
}, 900_000);
afterAll(() => rmSync(folder, { recursive: true }));

/** The tiny model with other bytes in its header. */
function changed(name: string, change: (bytes: Buffer) => void): string {
  const bytes = readFileSync(modelFile("tiny"));
  change(bytes);
  const file = join(folder, name);
  writeFileSync(file, bytes);
  return file;
}

const rename = (from: string, to: string) => (bytes: Buffer) => {
  expect(bytes.write(to, bytes.indexOf(from))).toBe(from.length);
};

/** Q1_0: llama.cpp plays it, the gguf package has no code for it. A tensor's type stands behind its name and two sizes. */
const inOneBit = (bytes: Buffer) => {
  const tensor = "blk.1.ffn_up.weight";
  bytes.writeUInt32LE(41, bytes.indexOf(tensor) + tensor.length + 4 + 2 * 8);
};

const commandLine = new CommandLine({ HOME: folder });
afterAll(() => commandLine.close());

describe("names that both sides have", () => {
  /** What the learner and the gguf package say, a line each: the packages take seconds to load. */
  let said: string[][];
  beforeAll(() => {
    const script = `import gguf
from learner.architectures import LAYER_TENSORS, MODEL_TENSORS, MODEL_TYPES
from learner.block_types import VALUES
from learner.gguf_model import FACTORS
print(*(kind.name for kind in gguf.quants._type_traits), "F32", "F16")
print(*(kind.name for kind in VALUES))
print(*MODEL_TENSORS, *FACTORS)
print(*{name for names in LAYER_TENSORS.values() for name in names})
print(*(f"{one}:{MODEL_TYPES[one]}" for one in MODEL_TYPES))`;
    const env = { ...process.env, PYTHONPATH: join(packageRoot, "native") };
    const { stdout, stderr, status } = spawnSync(python, ["-c", script], { encoding: "utf8", env });
    expect(status, stderr).toBe(0);
    said = stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" ").sort());
  });

  it("weights that the learner reads are those that the gguf package dequantises", () => {
    expect(said[0]).toEqual([...READABLE_WEIGHTS].sort());
  });

  it("weights that stay blocks are those that the learner computes values of", () => {
    expect(said[1]).toEqual([...KEPT_WEIGHTS].sort());
  });

  it("architectures and tensors are those that the learner has names for", () => {
    const types = [...MODEL_TYPES].map(([type, { gguf }]) => `${type}:${gguf}`);
    expect(said.slice(2)).toEqual([KNOWN_TENSORS.model, KNOWN_TENSORS.layer, types].map((names) => [...names].sort()));
  });
});

describe("training refuses in one line, and loads nothing", () => {
  const task = ["--task", join(packageRoot, "examples/arithmetic.ts"), "--gpu", "off", "--run", "mine", "--steps", "1"];
  it.each([
    [
      "weights that nobody dequantises",
      inOneBit,
      2,
      "has q1_0 weights, which the learner cannot read; give --hf-weights",
    ],
    [
      "a file without a chat template",
      rename("tokenizer.chat_template", "tokenizer.chat_templatX"),
      1,
      "has no chat template",
    ],
    ["a file without a vocabulary", rename("tokenizer.ggml.tokens", "tokenizer.ggml.tokenX"), 1, "has no vocabulary"],
  ])("%s", async (name, change, status, message) => {
    const file = changed(`${name.replaceAll(" ", "-")}.gguf`, change);
    const refused = await commandLine.run(folder, "train", "--model", file, ...task);
    expect(refused.stderr.trimEnd().split("\n")).toEqual([expect.stringContaining(`hone: ${file} ${message}`)]);
    expect([refused.status, refused.stdout]).toEqual([status, ""]);
    expect(readdirSync(folder)).not.toContain(".hone");
  });
});

it("a header says how many experts its model has, and the names of its tensors", async () => {
  const script = `import sys, gguf
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(64), writer.add_embedding_length(32), writer.add_block_count(1)
writer.add_feed_forward_length(64), writer.add_head_count(4), writer.add_expert_count(8)
import numpy
writer.add_tensor("token_embd.weight", numpy.zeros((96, 32), numpy.float32))
writer.add_tensor("blk.0.ffn_gate_inp.weight", numpy.zeros((8, 32), numpy.float32))
writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()`;
  const file = join(folder, "experts.gguf");
  const { status, stderr } = spawnSync(python, ["-c", script, file], { encoding: "utf8" });
  expect(status, stderr).toBe(0);
  const header = await modelHeader(file);
  expect(header).toMatchObject({ experts: 8, tensorNames: ["token_embd.weight", "blk.0.ffn_gate_inp.weight"] });
  expect((await modelHeader(modelFile("tiny"))).experts).toBe(0);
});

it("what a header says of its computation is held against the learner's", async () => {
  const tiny = await modelHeader(modelFile("tiny"));
  expect(() => checkTrainable(tiny, "x", false)).not.toThrow();
  const check = (about: Partial<typeof tiny>, hfWeights = false) =>
    checkTrainable({ ...tiny, ...about }, "x", hfWeights);
  expect(() => check({ window: 512 })).toThrow(/^x attends through a sliding window/);
  expect(() => check({ rotated: tiny.headSize / 2 }, true)).toThrow(/^x rotates \d+ of \d+ dimensions of a head/);
  for (const hfWeights of [false, true]) {
    expect(() => check({ ropeScaling: "longrope" }, hfWeights)).toThrow(
      /^x scales RoPE by longrope, which the learner does not$/,
    );
    expect(() => check({ ropeScaling: "yarn" }, hfWeights)).not.toThrow();
    expect(() => check({ ropeScaling: "yarn", architecture: "gemma3" }, hfWeights)).toThrow(/by yarn, which/);
    expect(() => check({ experts: 8 }, hfWeights)).toThrow(/^x is a mixture of experts/);
    const tensorNames = [...tiny.tensorNames, "blk.0.ffn_gate_inp.weight"];
    expect(() => check({ tensorNames }, hfWeights)).toThrow(/^x has a tensor blk\.0\.ffn_gate_inp\.weight, which/);
  }
  expect(() => check({ tensorNames: [...tiny.tensorNames, "blk.11.attn_q.bias", "rope_freqs.weight"] })).not.toThrow();
  expect(() => check({ tensorTypes: ["Q1_0"] })).toThrow(/^x has q1_0 weights.*give --hf-weights/);
  expect(() => check({ tensorTypes: ["Q1_0"] }, true)).not.toThrow();
  expect(() => check({ architecture: "gemma2" }, true)).toThrow(/architecture gemma2; the learner trains qwen2/);
  expect(() => check({ architecture: "gemma3", window: 512 })).not.toThrow();
  expect(() => check({ architecture: "phi3", rotated: tiny.headSize / 2 })).not.toThrow();
  expect(() => check({ architecture: "phi3", tokenizer: "llama" })).toThrow(
    /^x has a tokenizer that drops white space/,
  );
});

it("contexts are those of LongRoPE's short factors, those that YaRN stretches the first to, and a window as long as the context is none", async () => {
  const phi = await modelHeader(modelPath("phi3-tiny-f16.gguf"));
  expect(phi).toMatchObject({ architecture: "phi3", trainedContext: 1024, rotated: 24, headSize: 32 });
  expect(await trainedContext(modelPath("phi3-tiny-f16.gguf"))).toBe(1024);
  expect(phi.window).toBeUndefined();
  expect(await trainedContext(modelPath("yarn-tiny-f16.gguf"))).toBe(32_768);
  const gemma = await modelHeader(modelPath("gemma3-tiny-f16.gguf"));
  expect(gemma).toMatchObject({ architecture: "gemma3", trainedContext: 8192, window: 24 });
});

it("layers with a convolution are told from those with attention, as in config.json", async () => {
  const convolution = { layers: [0, 2], taps: 3 };
  const lfm = await modelHeader(modelPath("lfm2-tiny-f16.gguf"));
  expect(lfm).toMatchObject({ architecture: "lfm2", layers: 4, feedForward: 352, kvHeads: 2, convolution });
  expect(() => checkTrainable(lfm, "x", false)).not.toThrow();
  expect(() => checkTrainable({ ...lfm, ropeScaling: "yarn" }, "x", false)).toThrow(/by yarn, which/);
  const { bytes: _, ...shape } = shapeInFolder(modelPath("lfm2-tiny"), "f16") as ModelShape;
  expect(lfm).toMatchObject(shape);
});

it("LFM2 has the weights of its model card by the config.json that its makers publish", () => {
  const config = {
    architectures: ["Lfm2ForCausalLM"],
    model_type: "lfm2",
    hidden_size: 2048,
    num_hidden_layers: 16,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    vocab_size: 65536,
    max_position_embeddings: 128000,
    block_ff_dim: 12288,
    block_auto_adjust_ff_dim: true,
    block_ffn_dim_multiplier: 1.0,
    block_multiple_of: 256,
    conv_L_cache: 3,
    full_attn_idxs: [2, 5, 8, 10, 12, 14],
    tie_embedding: true,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  expect(shapeInFolder(folder, "f16")).toMatchObject({ feedForward: 8192, parameters: 1_170_340_608 });
});
