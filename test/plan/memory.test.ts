import { beforeAll, describe, expect, it } from "vitest";
import { type ModelShape, modelFile, modelShape } from "../../src/engine/index.js";
import { fitToMachine } from "../../src/plan/fit.js";
import { mainMemory } from "../../src/plan/machine.js";
import { adapterParameters, type PlanInput, planMemory, waysToFit } from "../../src/plan/memory.js";

const LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/** Qwen2.5-0.5B in f16. */
const qwen: ModelShape = {
  architecture: "qwen2",
  bytes: 988e6,
  parameters: 494e6,
  weightType: "F16",
  layers: 24,
  embedding: 896,
  feedForward: 4864,
  heads: 14,
  kvHeads: 2,
  headSize: 64,
  vocabulary: 151_936,
  trainedContext: 32_768,
};

const input: PlanInput = {
  shape: qwen,
  concurrency: 16,
  context: 8192,
  loraRank: 8,
  loraTargets: LINEAR,
  microBatchTokens: 4096,
  gradientCheckpointing: false,
  learnerLifetime: "run",
  releaseWeights: false,
  gpu: false,
};

const bytesOf = (name: string, change: Partial<PlanInput> = {}) => {
  const { playing, learning } = planMemory({ ...input, ...change });
  return [...playing, ...learning].find((row) => row.name.includes(name))?.bytes;
};
const peak = (change: Partial<PlanInput>) => planMemory({ ...input, ...change }).peak;

describe("the memory plan", () => {
  it("counts an adapter's weights as PEFT does", () => {
    // print_trainable_parameters() of PEFT on Qwen2.5-0.5B with rank 8 on all linear layers.
    expect(adapterParameters(qwen, 8, LINEAR)).toBe(4_399_104);
    expect(adapterParameters(qwen, 16, ["q_proj", "v_proj"])).toBe(24 * 16 * (896 + 896 + 896 + 128));
  });

  it("counts the KV cache of every sequence: two bytes a number, 12 kB a token of Qwen2.5-0.5B", () => {
    expect(bytesOf("KV")).toBe(16 * 8192 * 12_288);
    expect(bytesOf("KV", { concurrency: 1, context: 100 })).toBe(100 * 12_288);
  });

  it("counts four bytes a number where the engine holds KV in f32: f32 weights on a CPU", () => {
    const shape = { ...qwen, weightType: "F32" };
    expect(bytesOf("KV", { shape })).toBe(2 * 16 * 8192 * 12_288);
    expect(bytesOf("KV", { shape, gpu: true })).toBe(16 * 8192 * 12_288);
  });

  it("grows with what is asked for, and shrinks with what saves memory", () => {
    const now = peak({});
    expect(peak({ microBatchTokens: 8192 })).toBeGreaterThan(now);
    expect(peak({ loraRank: 64 })).toBeGreaterThan(now);
    expect(peak({ gradientCheckpointing: true })).toBeLessThan(now);
    expect(peak({ releaseWeights: true })).toBeLessThan(now);
    // With a small update the rollouts are the peak, and what they need decides.
    const playing = { microBatchTokens: 64, context: 32_768 };
    expect(peak({ ...playing, concurrency: 64 })).toBeGreaterThan(2 * peak(playing));
    expect(peak({ ...playing, learnerLifetime: "step" })).toBeLessThan(peak(playing));
  });

  it("finds flags that make a run fit, the gentlest first, and knows when nothing does", () => {
    expect(waysToFit(input, peak({}))).toEqual([]);
    expect(waysToFit(input, peak({ gradientCheckpointing: true }))).toEqual(["--gradient-checkpointing"]);
    const flags = waysToFit(input, 4.5e9) ?? [];
    expect(flags[0]).toBe("--gradient-checkpointing");
    expect(new Set(flags.map((flag) => flag.split(" ")[0])).size).toBe(flags.length);
    expect(waysToFit(input, 1e9)).toBeUndefined();
  });
});

describe("fitting a run to a machine", () => {
  const fitTo = (available: number, total = available, free = { concurrency: true, gradientCheckpointing: true }) => {
    const said: string[] = [];
    const fitted = fitToMachine(input, free, { total, available }, "this machine", (text) => said.push(text));
    return { fitted, said };
  };

  it("leaves what fits alone", () => {
    expect(fitTo(peak({}))).toEqual({ fitted: input, said: [] });
  });

  it("saves memory where nobody chose otherwise", () => {
    const { fitted, said } = fitTo(peak({ gradientCheckpointing: true }));
    expect(fitted).toEqual({ ...input, gradientCheckpointing: true });
    expect(said).toEqual([]);
  });

  it("warns when others have the memory, and goes on as it was told", () => {
    const free = { concurrency: false, gradientCheckpointing: false };
    const { fitted, said } = fitTo(peak({}) - 1e9, 2 * peak({}), free);
    expect(fitted).toEqual(input);
    expect(said.join()).toMatch(/^memory may run out: .* are free; these make it fit: --gradient-checkpointing/);
  });

  it("refuses what the machine cannot hold, with what is needed and flags that help", () => {
    const free = { concurrency: false, gradientCheckpointing: false };
    expect(() => fitTo(peak({}) - 1e9, peak({}) - 1e9, free)).toThrow(
      /does not fit: about [\d.]+ GB are needed at once \(.*learner: a pass of 4096 tokens.*--gradient-checkpointing/,
    );
    expect(() => fitTo(0.5e9)).toThrow("take a smaller model");
  });
});

it("knows what memory there is", () => {
  const { total, available } = mainMemory();
  expect(available).toBeGreaterThan(0);
  expect(available).toBeLessThanOrEqual(total);
});

describe("a model's file", () => {
  let tiny: ModelShape;
  beforeAll(async () => {
    tiny = await modelShape(modelFile("tiny"));
  });

  it("says all that the plan needs", () => {
    expect(tiny.weightType).toBe("F16");
    // Two bytes a weight, and a header with the vocabulary.
    expect(tiny.bytes).toBeGreaterThan(2 * tiny.parameters);
    expect(tiny.bytes).toBeLessThan(2.2 * tiny.parameters);
    expect(planMemory({ ...input, shape: tiny }).peak).toBeLessThan(peak({}));
  });
});
