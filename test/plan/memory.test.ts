import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { cardsTable, modelsByCardTable, onCard, qwen as qwenModels } from "../../bench/docs/cards.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type ModelShape, modelFile, modelShape } from "../../src/engine/models.js";
import { fitHere, fitText, smallestCard } from "../../src/machine/plan/by-default.js";
import { contextsMemory } from "../../src/machine/plan/engine-memory.js";
import { fitToMachine, WIDEST_ROW } from "../../src/machine/plan/fit.js";
import { adapterParameters, type PlanInput } from "../../src/machine/plan/input.js";
import { LONG_ANSWERS, learnerMemory, passOf } from "../../src/machine/plan/learner-memory.js";
import { mainMemory } from "../../src/machine/plan/machine.js";
import { type PlacePlan, planMemory } from "../../src/machine/plan/memory.js";
import { fits, waysToFit } from "../../src/machine/plan/remedies.js";
import { input, judge, LINEAR, qwen } from "./support.js";

type Change = Partial<PlanInput>;
const plan = (change: Change = {}) => planMemory({ ...input, ...change });
const onGpu = (change: Change = {}) => plan({ gpu: "cuda", ...change }).gpu as PlacePlan;
const find = ({ playing, learning }: PlacePlan, name: string) =>
  [...playing, ...learning].find((row) => row.name.includes(name))?.bytes;
const bytesOf = (name: string, change: Change = {}) => find(plan(change).host, name);
const peak = (change: Change = {}) => plan(change).host.peak;

describe("the memory plan", () => {
  it("counts an adapter's weights as PEFT does", () => {
    // print_trainable_parameters() of PEFT on Qwen2.5-0.5B with rank 8 on all linear layers.
    expect(adapterParameters(qwen, 8, LINEAR)).toBe(4_399_104);
    expect(adapterParameters(qwen, 16, ["q_proj", "v_proj"])).toBe(24 * 16 * (896 + 896 + 896 + 128));
  });

  it("counts an agent's frozen base while rollouts are played: a context, and no weights", () => {
    const base = { sequences: 4, contextPerSequence: 2048 };
    for (const gpu of [false, "cuda"] as const) {
      const [without, beside] = [plan({ gpu }), plan({ gpu, base })].map((one) => one.gpu ?? one.host);
      const added = beside?.playing.filter(({ name }) => name.startsWith("frozen")) ?? [];
      expect(beside?.playing.filter((row) => !added.includes(row))).toEqual(without?.playing);
      expect(added.map(({ name }) => name)).toEqual(["frozen base: KV of 4 × 2048 tokens", "frozen base: computing"]);
      // 24 layers, K and V of 2 heads of 64 numbers in f16; of a pool also a pass.
      expect(added[0]?.bytes).toBe((4 * 2048 + (gpu ? 512 : 0)) * 24 * 2 * 2 * 64 * 2);
      expect(beside?.learning).toEqual(without?.learning);
    }
    // On servers it is the servers' own.
    expect(plan({ base, served: { own: null } })).toEqual(plan({ served: { own: null } }));
  });

  it("counts each card by itself where the learner has its own, and the engine whole while it computes", () => {
    const two = plan({ gpu: "cuda", learnerOn: "own card", awake: true });
    const shared = plan({ gpu: "cuda" });
    const names = (rows: PlacePlan["playing"]) => rows.map(({ name }) => name.split(":")[0]);
    const [engine, learner] = [two.gpu as PlacePlan, two.learnerGpu as PlacePlan];
    expect(new Set(names([...engine.playing, ...engine.learning]))).toEqual(new Set(["engine"]));
    expect(engine.learning).toEqual(engine.playing);
    expect(new Set(names([...learner.playing, ...learner.learning]))).toEqual(new Set(["learner"]));
    expect(shared.learnerGpu).toBeNull();
    expect(engine.peak + learner.peak).toBeGreaterThan((shared.gpu as PlacePlan).peak);
    expect(two.host.peak).toBe(shared.host.peak);
    const less = { host: 1e12, gpu: 1e12 };
    expect(fits({ ...input, gpu: "cuda", learnerOn: "own card", awake: true }, less)).toBe(false);
    expect(fits({ ...input, gpu: "cuda", learnerOn: "own card", awake: true }, { ...less, learnerGpu: 1e12 })).toBe(
      true,
    );
  });

  it("counts a learner on the CPU beside an engine on a card, and both at once where steps are played ahead", () => {
    const apart = plan({ gpu: "cuda", learnerOn: "cpu", awake: true });
    expect(find(apart.gpu as PlacePlan, "learner")).toBeUndefined();
    // In f32, as on a machine without a card.
    expect(find(apart.host, "learner: weights")).toBe(4 * qwen.parameters);
    const [turns, ahead] = [plan().host, plan({ awake: true }).host];
    expect(ahead.peak).toBeGreaterThan(turns.peak);
    expect(ahead.learning.map(({ name }) => name)).toContain(
      `engine: KV of ${input.concurrency} × ${input.context} tokens`,
    );
  });

  it("counts what hone's own graph has besides on a GPU: rows for A in its matrices of 16 bits, and two sequences a lane", () => {
    const weights = (change: Change) => find(onGpu(change), "engine: weights") as number;
    const own = { decoder: "own" } as const;
    // 64 rows behind q, k, v, gate and up of 896 numbers, o of 896 and down of 4864, in 24 layers: 3 % of 988 MB.
    const rows = 24 * 64 * (3 * 896 + 896 + 2 * 896 + 4864) * 2;
    expect(weights(own) - weights({})).toBe(rows);
    expect(rows / qwen.bytes).toBeCloseTo(0.032, 3);
    expect(weights({ ...own, shape: { ...qwen, weightType: "BF16" } }) - weights({})).toBe(rows);
    // A is apart, or llama.cpp's graph plays.
    for (const shape of [
      { ...qwen, weightType: "Q8_0" },
      { ...qwen, weightType: "F32" },
      { ...qwen, architecture: "olmo2" },
    ])
      expect(weights({ ...own, shape })).toBe(weights({ shape }));
    expect(bytesOf("engine: weights", own)).toBe(bytesOf("engine: weights"));
    const kv = (change: Change) => find(onGpu({ concurrency: 64, ...change }), "KV") as number;
    expect(kv({ ...own, lanes: 2 })).toBe((64 + 2 * 2) * 8192 * 12_288);
    expect(kv({ ...own, lanes: 2, shape: { ...qwen, architecture: "olmo2" } })).toBe(kv({ lanes: 2 }));
  });

  it("counts the KV cache of every sequence: two bytes a number, 12 kB a token of Qwen2.5-0.5B", () => {
    expect(bytesOf("KV")).toBe(16 * 8192 * 12_288);
    // llama.cpp rounds up to 256 tokens.
    expect(bytesOf("KV", { concurrency: 1, context: 100 })).toBe(256 * 12_288);
    expect(bytesOf("KV", { concurrency: 3, context: 257 })).toBe(3 * 512 * 12_288);
  });

  it("counts four bytes a number where the engine holds KV in f32: f32 weights on a CPU", () => {
    const shape = { ...qwen, weightType: "F32" };
    expect(bytesOf("KV", { shape })).toBe(2 * 16 * 8192 * 12_288);
    expect(find(onGpu({ shape }), "KV")).toBe(16 * 8192 * 12_288);
  });

  it("counts llama.cpp's compute buffers as it logs them, in MiB", () => {
    const logits = (sequences: number) => 4 * (sequences + 64) * qwen.vocabulary;
    const buffer = (change: Change & { concurrency: number }) =>
      ((bytesOf("computing", change) as number) - logits(change.concurrency)) / 2 ** 20;
    expect(buffer({ concurrency: 4, context: 2048 })).toBeCloseTo(43.38, 1);
    expect(buffer({ concurrency: 16, context: 8192 })).toBeCloseTo(50.42, 1);
    // Without flash attention, which f32 weights do without, the scores of all heads.
    const shape = { ...qwen, weightType: "F32" };
    expect(buffer({ shape, concurrency: 4, context: 2048 })).toBeCloseTo(69.26, 1);
    expect(buffer({ shape, concurrency: 16, context: 8192 })).toBeCloseTo(249.26, 1);
    // Of Vulkan with flash attention, where logits were on the host.
    const vulkan = (change: Change) =>
      (find(plan({ gpu: "vulkan", ...change }).gpu as PlacePlan, "computing") as number) / 2 ** 20;
    const tiny = { ...qwen, layers: 4, embedding: 256, feedForward: 640, heads: 4, kvHeads: 4, vocabulary: 4417 };
    expect(vulkan({ shape: tiny, concurrency: 16, context: 8192 })).toBeCloseTo(12.76, 1);
  });

  it("counts longer passes, lanes and drawing on the device as llama.cpp logs them, in MB", () => {
    const buffers = (change: Change) => contextsMemory({ ...input, ...change });
    const compute = (change: Change) => buffers(change).compute / 1e6;
    const long = { ubatch: 2048 };
    expect(compute({ ...long, concurrency: 4, context: 2048 })).toBeCloseTo(157.34, 0);
    expect(compute({ ...long, concurrency: 16, context: 8192 })).toBeCloseTo(182.5, 0);
    expect(compute({ concurrency: 4, context: 2048, ubatch: 32 })).toBeCloseTo(19.7, 0);
    const device = { sampling: "device" } as const;
    expect(compute({ ...device, concurrency: 4, context: 2048 })).toBeCloseTo(128.78, 0);
    expect(compute({ ...device, concurrency: 16, context: 2048 })).toBeCloseTo(150.41, 0);
    expect(compute({ ...device, concurrency: 64, context: 512 })).toBeCloseTo(236.81, 0);
    expect(compute({ ...device, ...long, lanes: 2, concurrency: 9, context: 2048 })).toBeCloseTo(314.82, 0);
    // Room for the logits of 80 rows, and for four times those of 16 or 64: probabilities, logits, candidates.
    expect(buffers({ concurrency: 16 }).outputs).toBe(4 * 80 * qwen.vocabulary);
    expect(buffers({ ...device, concurrency: 16 }).outputs).toBe(4 * 80 * qwen.vocabulary);
    expect(buffers({ ...device, concurrency: 64 }).outputs).toBe(4 * 256 * qwen.vocabulary);
  });

  it("counts each lane's buffers, and its sequences' KV", () => {
    const one = contextsMemory({ ...input, concurrency: 8 });
    const both = contextsMemory({ ...input, lanes: 2, concurrency: 16 });
    expect(both).toEqual(Object.fromEntries(Object.entries(one).map(([part, bytes]) => [part, 2 * bytes])));
    expect(contextsMemory({ ...input, lanes: 3, concurrency: 16 }).kv).toBe(contextsMemory(input).kv);
    // A pool each, with padding of its own; 16 sequences of 8,192 tokens in one context would be none.
    const card = { ...input, gpu: "cuda" as const };
    expect(contextsMemory({ ...card, lanes: 2 }).kv).toBe(2 * (8 * 8192 + 512) * 12_288);
    expect(contextsMemory({ ...card, lanes: 2, ubatch: 2048 }).kv).toBe(2 * (8 * 8192 + 2048) * 12_288);
    expect(contextsMemory(card).kv).toBe(16 * 8192 * 12_288);
    // A pass too short for a row of each sequence and as many tokens of prompts has no pool either.
    expect(contextsMemory({ ...card, concurrency: 8, ubatch: 15 }).kv).toBe(8 * 8192 * 12_288);
    // Of a CUDA process the context is there once.
    const overhead = (lanes: number) => find(onGpu({ lanes }), "engine: process") as number;
    expect(overhead(2) - overhead(1)).toBe(overhead(3) - overhead(2));
    expect(overhead(2)).toBeLessThan(2 * overhead(1));
  });

  it("counts a GPU's pool of KV: room for padding, and a mask of each token over all cells", () => {
    const at = (concurrency: number) => onGpu({ concurrency, context: 8192 });
    const cells = 8 * 8192 + 512;
    expect(find(at(8), "KV")).toBe(cells * 12_288);
    expect(find(at(8), "computing")).toBeGreaterThan(2 * cells * 512);
    // More cells are no pool: each sequence has its own.
    expect(find(at(12), "KV")).toBe(12 * 8192 * 12_288);
    expect(find(at(8), "computing") as number).toBeGreaterThan(find(at(12), "computing") as number);
  });

  it("puts on the GPU what is there: layers in 16 bits, the rest in f32", () => {
    const linear = 24 * (896 * 64 * 2 * 16 + 3 * 896 * 4864);
    expect(find(onGpu(), "learner: weights")).toBe(2 * linear + 4 * (qwen.parameters - linear));
    expect(find(onGpu({ precision: "f32" }), "learner: weights")).toBe(4 * qwen.parameters);
    expect(find(onGpu({ precision: "f16" }), "learner: weights")).toBe(find(onGpu(), "learner: weights"));
    expect(bytesOf("learner: weights")).toBe(4 * qwen.parameters);
  });

  it("counts the host beside a GPU: processes, embeddings, and weights while they are read", () => {
    const { host } = plan({ gpu: "cuda" });
    expect(find(host, "reading weights")).toBe(4 * qwen.vocabulary * qwen.embedding);
    expect(find(host, "learner: Python with CUDA")).toBeGreaterThan(1e9);
    expect(find(host, "KV")).toBeUndefined();
    const folder = plan({ gpu: "cuda", hfWeights: true }).host;
    expect(find(folder, "reading weights")).toBe(4 * qwen.parameters);
  });

  it("has the learner on the host where the GPU is not CUDA, and one place where it is Metal", () => {
    const vulkan = plan({ gpu: "vulkan" });
    expect(find(vulkan.host, "learner: a pass")).toBe(bytesOf("learner: a pass"));
    expect(find(vulkan.gpu as PlacePlan, "learner")).toBeUndefined();
    expect(plan({ gpu: "metal" }).gpu).toBeNull();
    expect(find(plan({ gpu: "metal" }).host, "KV")).toBe(16 * 8192 * 12_288);
  });

  it("has room for short answers to a long prompt, each with a copy of wide keys and values", () => {
    // Qwen3-0.6B: 2,040 tokens that all prompts have, and as many answers as native/learner/packing.py then puts in a row.
    const shape: ModelShape = {
      ...qwen,
      architecture: "qwen3",
      parameters: 596e6,
      layers: 28,
      embedding: 1024,
      feedForward: 3072,
      heads: 16,
      kvHeads: 8,
      headSize: 128,
    };
    const wanted = { ...input, gpu: "cuda" as const, shape, context: 4096 };
    const settings = { shape, loraRank: 8, loraTargets: LINEAR, precision: "f16" as const, blocks: false };
    const row = { prompt: 2040, completions: Array<number>(9).fill(228) };
    const { keeping, beside } = passOf(settings, [row], 9 * 228, false, "cuda");
    // A tenth is for what PyTorch's allocator loses.
    expect(learnerMemory(wanted).pass).toBeGreaterThan(1.1 * (keeping + beside));
    expect(learnerMemory(wanted, [LONG_ANSWERS]).pass).toBeLessThan(keeping + beside);
  });

  it("counts quantised weights as the learner keeps them: the file's blocks, or values where it cannot", () => {
    const shape = { ...qwen, weightType: "Q4_K", bytes: 398e6 };
    const weights = (change: Change) => find(onGpu(change), "learner: weights") as number;
    expect(weights({ shape })).toBe(shape.bytes);
    expect(bytesOf("learner: weights", { shape })).toBe(shape.bytes);
    const values = weights({});
    expect(values).toBeGreaterThan(3 * shape.bytes);
    expect(weights({ shape, learner: "unsloth" })).toBe(values);
    expect(weights({ shape, hfWeights: true })).toBe(values);
    expect(weights({ shape: { ...shape, weightType: "Q3_K" } })).toBe(values);
    // The values of the output layer exist while tokens are scored.
    const small = { shape, context: 512, microBatchTokens: 512, gradientCheckpointing: true };
    const pass = learnerMemory({ ...input, ...small }).pass - learnerMemory({ ...input, ...small, shape: qwen }).pass;
    expect(pass).toBeGreaterThan(0.9 * 4 * qwen.vocabulary * qwen.embedding);
  });

  it("has room for a conversation that fills its context, however small the micro-batches are", () => {
    const settings = { shape: qwen, loraRank: 8, loraTargets: LINEAR, precision: "f32" as const, blocks: false };
    const { keeping, beside } = passOf(settings, [{ prompt: 2000, completions: [6192] }], 6192, false);
    for (const microBatchTokens of [512, 4096]) {
      expect(bytesOf("a pass of 8192 tokens", { microBatchTokens })).toBeGreaterThan(keeping + beside);
    }
    // So smaller micro-batches are no remedy, and a shorter context is one.
    const checked = { ...input, gradientCheckpointing: true, concurrency: 1, releaseWeights: true };
    const room = { host: planMemory({ ...checked, context: 4096 }).host.peak, gpu: 0 };
    expect(waysToFit(checked, room)).toEqual(["--context 4096"]);
    expect(waysToFit({ ...checked, microBatchTokens: 1024 }, room)).toEqual(["--context 4096"]);
    const twice = { ...checked, releaseWeights: false, context: 2048 };
    const less = planMemory({ ...twice, microBatchTokens: 2048 }).host.peak;
    expect(waysToFit(twice, { host: less, gpu: 0 })).toEqual(["--micro-batch-tokens 2048"]);
  });

  it("takes the learner off the GPU between updates: ended with step, moved to the host with offload", () => {
    const playing = (place: PlacePlan, name: string) => place.playing.find((row) => row.name.includes(name))?.bytes;
    expect(playing(onGpu(), "learner: weights")).toBeGreaterThan(1e9);
    expect(playing(onGpu({ learnerLifetime: "step" }), "learner")).toBeUndefined();
    const offload = plan({ gpu: "cuda", learnerLifetime: "offload" });
    expect(playing(offload.gpu as PlacePlan, "learner: weights")).toBeUndefined();
    // CUDA's context stays with the process.
    expect(playing(offload.gpu as PlacePlan, "learner: process")).toBeGreaterThan(0.4e9);
    expect(playing(offload.host, "learner: weights between updates")).toBe(find(onGpu(), "learner: weights"));
    // On a CPU there is nowhere to go.
    expect(plan({ learnerLifetime: "offload" })).toEqual(plan());
  });

  it("counts a judge that hone runs while there are rollouts to judge, and nothing of it during an update", () => {
    // As llama.cpp's KV of the same shape: two bytes a number, 12 kB a token of Qwen2.5-0.5B.
    const { host } = plan({ judge });
    const judged = host.playing.filter(({ name }) => name.startsWith("judge"));
    expect(judged.map(({ name }) => name)).toEqual([
      "judge: weights",
      "judge: KV of 8 × 35648 tokens",
      "judge: computing",
    ]);
    expect(judged[0]?.bytes).toBe(qwen.bytes);
    expect(judged[1]?.bytes).toBe(8 * 35_840 * 12_288);
    expect(host.learning).toEqual(plan().host.learning);
    // On a card it shares the engine's CUDA context, and its embeddings are read on the host.
    const card = planMemory({ ...input, gpu: "cuda", judge });
    const without = planMemory({ ...input, gpu: "cuda" });
    const more = (place: "host" | "gpu") =>
      (card[place]?.playing ?? []).filter(({ name }) => name.startsWith("judge")).map(({ name }) => name);
    expect(more("gpu")).toEqual(judged.map(({ name }) => name));
    expect(more("host")).toEqual(["judge: weights", "judge: computing"]);
    expect(card.gpu?.learning).toEqual(without.gpu?.learning);
  });

  it("grows with what is asked for, and shrinks with what saves memory", () => {
    const now = peak({});
    expect(peak({ microBatchTokens: 8192 })).toBeGreaterThan(now);
    expect(peak({ loraRank: 64 })).toBeGreaterThan(now);
    expect(peak({ gradientCheckpointing: true })).toBeLessThan(now);
    expect(peak({ releaseWeights: true })).toBeLessThan(now);
    // With many rollouts they are the peak, and what they need decides.
    const playing = { gradientCheckpointing: true, concurrency: 64, context: 32_768 };
    expect(peak({ ...playing, concurrency: 256 })).toBeGreaterThan(2 * peak(playing));
    expect(peak({ ...playing, learnerLifetime: "step" })).toBeLessThan(peak(playing));
  });
});

describe("fitting a run to a machine", () => {
  const both = { concurrency: true, gradientCheckpointing: true, microBatchTokens: true };
  const neither = { concurrency: false, gradientCheckpointing: false, microBatchTokens: false };
  const fitTo = (available: number, total = available, free = both) => {
    const said: string[] = [];
    const fitted = fitToMachine(input, free, { host: { total, available }, gpu: null }, (text) => said.push(text));
    return { fitted, said };
  };

  it("leaves what fits alone", () => {
    expect(fitTo(peak({}))).toEqual({ fitted: input, said: [] });
  });

  it("saves memory where nobody chose otherwise", () => {
    const { fitted, said } = fitTo(peak({ gradientCheckpointing: true }));
    expect(fitted).toEqual({ ...input, gradientCheckpointing: true });
    expect(said).toEqual([]);
    const fixed = fitTo(3e9, 100e9, { ...both, concurrency: false });
    expect(fixed.fitted).toEqual({ ...input, gradientCheckpointing: true });
  });

  it("computes nothing twice where fewer rollouts at once are enough", () => {
    const small = { ...input, microBatchTokens: 512, context: 2048, concurrency: 512 };
    const room = planMemory({ ...small, concurrency: 256 }).host.peak;
    const machine = { host: { total: room, available: room }, gpu: null };
    expect(fitToMachine(small, both, machine, () => undefined)).toEqual({ ...small, concurrency: 256 });
  });

  it("warns when others have the memory, and goes on as it was told", () => {
    const { fitted, said } = fitTo(peak({}) - 1e9, 2 * peak({}), neither);
    expect(fitted).toEqual(input);
    expect(said.join()).toMatch(/^memory may run out: .* are free; these make it fit: --gradient-checkpointing$/);
  });

  it("refuses what the machine cannot hold, with what is needed and flags that help", () => {
    expect(() => fitTo(peak({}) - 1e9, peak({}) - 1e9, neither)).toThrow(
      /does not fit: about [\d.]+ GB are needed at once \(.*learner: a pass of 8192 tokens.*--gradient-checkpointing/,
    );
    expect(() => fitTo(0.5e9)).toThrow("take a smaller model");
  });

  it("names the place that is short, the card or the machine", () => {
    const card = (gpu: number, host: number) => ({
      host: { total: host, available: host },
      gpu: { name: "Card", total: gpu, available: gpu },
    });
    const on = (gpu: number, host: number) =>
      fitToMachine({ ...input, gpu: "cuda" }, neither, card(gpu, host), () => undefined);
    expect(() => on(4e9, 64e9)).toThrow(/, Card has 4.0 GB; /);
    expect(() => on(80e9, 2e9)).toThrow(/, this machine has 2.0 GB; /);
    expect(on(80e9, 64e9)).toEqual({ ...input, gpu: "cuda" });
  });

  it("fills a card with longer rows where nobody chose their length, and leaves some room", () => {
    const on = (gpu: number, kind: PlanInput["gpu"] = "cuda", free = both) =>
      fitToMachine(
        { ...input, gpu: kind },
        free,
        { host: { total: 64e9, available: 64e9 }, gpu: { name: "Card", total: gpu, available: gpu } },
        () => undefined,
      );
    // A smaller card checkpoints activations, and rows may then be longer than on a larger one without that.
    const plain = [24e9, 48e9, 80e9].map((bytes) => on(bytes));
    expect(plain.map(({ gradientCheckpointing }) => gradientCheckpointing)).toEqual([false, false, false]);
    const tokens = plain.map(({ microBatchTokens }) => microBatchTokens);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(tokens.at(-1)).toBeGreaterThanOrEqual(16_384);
    for (const bytes of [16e9, 24e9, 48e9, 80e9, 141e9]) {
      const wide = on(bytes);
      const need = (microBatchTokens: number) => (planMemory({ ...wide, microBatchTokens }).gpu as PlacePlan).peak;
      expect(need(wide.microBatchTokens)).toBeLessThanOrEqual(0.8 * bytes);
      if (wide.microBatchTokens < WIDEST_ROW) expect(need(2 * wide.microBatchTokens)).toBeGreaterThan(0.8 * bytes);
    }
    expect(on(1000e9).microBatchTokens).toBe(WIDEST_ROW);
    expect(on(80e9, "cuda", { ...both, microBatchTokens: false })).toEqual({ ...input, gpu: "cuda" });
    expect(on(80e9, "vulkan").microBatchTokens).toBe(input.microBatchTokens);
  });
});

describe("models on cards", () => {
  it("have the sizes that Qwen2.5's model cards give", () => {
    const parameters = qwenModels().map(([, shape]) => shape.parameters);
    expect(parameters).toEqual([
      494_032_768, 1_543_714_304, 3_085_938_688, 7_615_616_512, 14_770_033_664, 32_763_876_352,
    ]);
  });

  it("fit or not as the documentation says", () => {
    expect(readFileSync(join(packageRoot, "docs/memory.md"), "utf8")).toContain(cardsTable());
    expect(readFileSync(join(packageRoot, "docs/gpu.md"), "utf8")).toContain(modelsByCardTable());
    const shapes = new Map(qwenModels());
    expect(onCard(shapes.get("0.5B") as ModelShape, 80)).toBe("yes");
    expect(onCard(shapes.get("14B") as ModelShape, 8)).toBe("no");
  });
});

describe("what trains a model", () => {
  const shapes = new Map(qwenModels());
  const shape = (name: string) => shapes.get(name) as ModelShape;

  it("is the smallest card on which no option need be given", () => {
    // Of the largest one card has no room for the weights of engine and learner.
    expect(smallestCard(shape("32B"))).toBeNull();
    for (const [name, own] of [...shapes].filter(([name]) => name !== "32B")) {
      const card = smallestCard(own) as number;
      expect(onCard(own, card), name).toMatch(/^yes/);
      expect(onCard(own, card / 2), name).not.toMatch(/^yes/);
    }
    expect(smallestCard({ ...shape("14B"), layers: 480, parameters: 148e9, bytes: 296e9 })).toBeNull();
  });

  it("is this machine, with what hone changes by itself, with options, or not", () => {
    const memory = (total: number) => ({ total, available: 0 });
    const on = (host: number, gpu: number | null, kind: "cuda" | false) => {
      const card = gpu === null ? null : { name: "Card", ...memory(gpu) };
      return fitText(fitHere(shape("0.5B"), { host: memory(host), gpu: card }, kind, 4));
    };
    expect(on(64e9, null, false)).toBe("yes");
    expect(on(64e9, 80e9, "cuda")).toBe("yes");
    expect(on(64e9, 8e9, "cuda")).toMatch(/^yes: checkpointing, \d+ at once$/);
    expect(on(64e9, 4e9, "cuda")).toMatch(/^--gradient-checkpointing /);
    expect(on(64e9, 1e9, "cuda")).toBe("no");
    expect(on(1e9, null, false)).toBe("no");
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
    expect(peak({ shape: tiny })).toBeLessThan(peak());
  });
});
