/** Adapters that other programs trained: what is refused, and a run and rollouts that start from one. */
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { safetensors, vector } from "../../src/core/learn/safetensors.js";
import { HoneError } from "../../src/core/util/errors.js";
import { tryLock } from "../../src/core/util/lock.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type ModelShape, modelShape } from "../../src/engine/models.js";
import { adopted, checkBelongs, checkSettings, readPeft } from "../../src/machine/models/adapter.js";
import { ensureLearnerPython } from "../support/python.js";
import { smallRun } from "./support/cli.js";

const home = mkdtempSync(join(tmpdir(), "hone-adapter-"));
const all = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
let python: string;
let first: string;
let qwen2: ModelShape;
let phi3: ModelShape;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
  first = modelPath("qwen2-tiny-adapter-1");
  qwen2 = await modelShape(modelPath("qwen2-tiny-f16.gguf"));
  phi3 = await modelShape(modelPath("phi3-tiny-f16.gguf"));
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

/** A copy of the test adapter with another configuration, or other weights. */
function changed(config: object, weights?: Buffer): string {
  const folder = mkdtempSync(join(home, "changed-"));
  const before = JSON.parse(readFileSync(join(first, "adapter_config.json"), "utf8"));
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...before, ...config }));
  if (weights) writeFileSync(join(folder, "adapter_model.safetensors"), weights);
  else copyFileSync(join(first, "adapter_model.safetensors"), join(folder, "adapter_model.safetensors"));
  return folder;
}

describe("an adapter in PEFT's form", () => {
  it("says its rank, alpha and layers; the layers as its tensors have them", () => {
    expect(readPeft(first, "--x").lora).toEqual({ rank: 8, alpha: 16, targets: all });
    expect(readPeft(changed({ target_modules: "(?:.*?self_attn|mlp).*" }), "--x").lora.targets).toEqual(all);
  });

  it("on layers that are several in one is on all their parts, and belongs to a model of such layers", async () => {
    const phi = readPeft(modelPath("phi3-tiny-adapter-1"), "--x");
    expect(phi.lora).toEqual({ rank: 8, alpha: 16, targets: all });
    expect(() => checkBelongs(phi, phi3, "--x")).not.toThrow();
    expect(() => checkBelongs(phi, qwen2, "--x")).toThrow(/it has no .*q_proj/);
    expect(() => checkBelongs(readPeft(first, "--x"), phi3, "--x")).toThrow(/it has no .*qkv_proj/);
  });

  it("is not waited for after Ctrl-C while another process reads one", async () => {
    mkdirSync(join(home, "adapters"));
    const lock = tryLock(join(home, "adapters/.lock"));
    const controller = new AbortController();
    const io = {
      log: () => {
        controller.abort(new HoneError("interrupted"));
        setTimeout(() => lock?.close(), 1000);
      },
      update: () => undefined,
      signal: controller.signal,
    };
    const options = { home, python: "/nowhere/python" };
    const waiting = adopted(readPeft(first, "--x"), modelPath("qwen2-tiny-f16.gguf"), options, io);
    await expect(waiting).rejects.toThrow("interrupted");
  });

  it("on layers with other names is on the targets that have them, and belongs to a model whose layers are those", async () => {
    const adapter = readPeft(modelPath("lfm2-tiny-adapter-1"), "--x");
    expect(adapter.lora).toEqual({ rank: 8, alpha: 16, targets: all });
    const shape = await modelShape(modelPath("lfm2-tiny-f16.gguf"));
    checkBelongs(adapter, shape, "--x");
    const convolution = { layers: [0, 1], taps: 3 };
    expect(() => checkBelongs(adapter, { ...shape, convolution }, "--x")).toThrow(
      /it has no base_model\.model\.model\.layers\.2\.self_attn\.q_proj\.lora_A/,
    );
    expect(() => checkBelongs(adapter, qwen2, "--x")).toThrow(/belongs to another base model/);
  });

  it("is refused when it is not there, not whole, or on other layers", () => {
    expect(() => readPeft(join(home, "nowhere"), "--x")).toThrow(/there is no adapter_config\.json; give the folder/);
    const weights = readFileSync(join(first, "adapter_model.safetensors"));
    expect(() => readPeft(changed({}, weights.subarray(0, -4)), "--x")).toThrow(
      /adapter_model\.safetensors of .* is not whole/,
    );
    const head = safetensors({ "base_model.model.lm_head.lora_A.weight": vector("F32", [1]) }, {});
    expect(() => readPeft(changed({}, head), "--x")).toThrow(
      /it holds base_model\.model\.lm_head\.lora_A\.weight; hone adapts/,
    );
  });

  it("belongs to the model whose shapes it has", async () => {
    const adapter = readPeft(first, "--x");
    checkBelongs(adapter, await modelShape(modelPath("qwen2-tiny-f16.gguf")), "--x");
    const qwen3 = await modelShape(modelPath("qwen3-tiny-f16.gguf"));
    expect(() => checkBelongs(adapter, qwen3, "--x")).toThrow(
      /^--x belongs to another base model: .*q_proj\.lora_B\.weight is \[128,8\] there, \[256,8\] here$/,
    );
    const deeper = { ...(await modelShape(modelPath("qwen2-tiny-f16.gguf"))), layers: 5 };
    expect(() => checkBelongs(adapter, deeper, "--x")).toThrow(/it has no base_model\.model\.model\.layers\.4\./);
    expect(() => checkBelongs(adapter, { ...deeper, layers: 3 }, "--x")).toThrow(
      /layers\.3\..*, the model has 3 layers$/,
    );
    const narrowed = readPeft(changed({ layers_to_transform: [0, 1, 2, 3] }), "--x");
    expect(() => checkBelongs(narrowed, deeper, "--x")).toThrow(
      /^--x has no base_model\.model\.model\.layers\.4\..* \(layers_to_transform\); hone adapts a target in every layer/,
    );
  });

  it("says which options fit it", () => {
    const adapter = readPeft(first, "--x");
    checkSettings(adapter, { rank: 8, alpha: 16, targets: [...all].reverse() }, "--x");
    expect(() => checkSettings(adapter, { rank: 16, alpha: 32, targets: all }, "--x")).toThrow(
      "--x has rank 8, alpha 16, on q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj; give --lora-rank 8 --lora-alpha 16",
    );
  });
});

describe("a run that starts from one", () => {
  const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts"), "--gpu", "off", "--threads", "1"];
  const model = () => ["--model", modelPath("qwen2-tiny-f16.gguf")];
  const shape = ["--lora-rank", "8", "--lora-alpha", "16"];
  const hone = (...args: string[]) =>
    spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args, "--python", python], {
      cwd: home,
      encoding: "utf8",
    });
  const train = (...args: string[]) => hone("train", "--run", "mine", ...model(), ...task, ...smallRun, ...args);
  const checkpoints = join(home, ".hone/vowels/models/mine/checkpoints");

  it("is refused before it begins where the shapes differ", () => {
    const refused = train("--steps", "1", "--fork", first);
    expect([refused.status, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/^hone: --fork .* has rank 8, alpha 16, .*\n$/),
    ]);
    expect(existsSync(checkpoints)).toBe(false);
  });

  // LocalEngine and learner are compared before the update: with a learner that started anew it would be refused.
  it("plays it, learns from there, and goes on by the same command", () => {
    const begun = train("--steps", "1", "--fork", first, ...shape);
    expect(begun.status, begun.stderr).toBe(0);
    expect(readdirSync(checkpoints).sort()).toContain("0001");
    const again = train("--steps", "2", "--fork", first, ...shape);
    expect(again.status, again.stderr).toBe(0);
    expect(again.stdout).toContain("going on after step 1 of 2");
    const bare = train("--steps", "2", ...shape);
    expect(bare.status, bare.stderr).toBe(0);
    const other = train("--steps", "3", "--fork", changed({ revision: "other" }), ...shape);
    expect([other.status, other.stderr]).toEqual([2, expect.stringContaining("other contents of the first adapter")]);
  });

  it("is played by rollouts as well, from the folder as from llama.cpp's own conversion of it", () => {
    const out = (name: string) => join(home, `${name}.jsonl`);
    const rollout = (name: string, adapter: string) =>
      hone(
        "rollout",
        ...model(),
        ...task,
        "--n",
        "2",
        "--group-size",
        "1",
        "--concurrency",
        "1",
        "--max-turns",
        "1",
        "--max-tokens",
        "12",
        "--adapter",
        adapter,
        "--out",
        out(name),
      );
    for (const [name, adapter] of [
      ["folder", first],
      ["file", modelPath("qwen2-tiny-adapter-1.gguf")],
    ] as const) {
      const { status, stderr } = rollout(name, adapter);
      expect(status, stderr).toBe(0);
    }
    const ids = (name: string) =>
      readFileSync(out(name), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).tokens.ids);
    expect(ids("folder")).toEqual(ids("file"));
    mkdirSync(join(home, "empty"));
    const empty = rollout("empty", join(home, "empty"));
    expect([empty.status, empty.stderr]).toEqual([2, expect.stringMatching(/there is no adapter_config\.json/)]);
  });
});
