/** The engine on a GPU: the figures of transformers, and the behaviours that the tests on a CPU state. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { few, gpu, held } from "../support/gpu.js";
import { ensureLearnerPython } from "../support/python.js";
import {
  evaluatesAPromptOnce,
  evaluatesOnlyWhatIsAppended,
  expectWithin,
  givesMemoryBack,
  hasAnAdapterOfItsOwn,
  keepsWhatItHasAtItsDeadline,
  keepsWhatItHasWhenCancelled,
  outlivesItsWorkers,
  scores,
  sleepsAndWakes,
} from "./behaviours.js";
import { largestDifference, newModel, options, prompt } from "./support.js";
import {
  type Case,
  caseModel,
  caseName,
  cases,
  difference,
  figuresOf,
  type Pair,
  type Played,
  playCases,
  Reference,
} from "./transformers.js";

/** f32 weights have f16 KV on a GPU, which huggingface.py does not round for them. */
const rounded = cases.filter(({ weights }) => weights !== "f32");
/**
 * Each width of heads, type of weights and rank has kernels of its own. llvmpipe gets one of each; qwen3-tiny has heads of
 * 64, as the models of the other tests here.
 */
const tested = gpu.software
  ? rounded.filter(({ family, weights, adapter }) => `${family} ${weights}` === "qwen3 f16" && adapter !== "adapter-2")
  : rounded;
const plain = tested.find(({ adapter }) => adapter === "none") as Case;

const model = modelPath("qwen3-tiny-f16.gguf");
const adapter = modelPath("qwen3-tiny-adapter-1.gguf");

/**
 * Passes of one or two rows, whose kernels decoding has. Each change of an adapter warms up with a full pass, which then
 * takes milliseconds; passes of more rows are those of `playCases`.
 */
const fewer = gpu.software ? { ubatch: few.sequences } : {};

let played: Map<string, Played>;
const reference = new Reference();
const folder = mkdtempSync(join(tmpdir(), "hone-gpu-engine-"));
const playedBy = (one: Case) => played.get(caseName(one)) as Played;
/** Two computations of the same on this device: a row alone, and the same row among others. */
let rounding: number;
let engine: LocalEngine;

/** Log-probabilities of all tokens but the first, from another process: a process has one device. */
function scoresOnCpu(file: string, adapter: string | undefined, ids: ArrayLike<number>): number[] {
  const tokens = join(folder, "tokens.json");
  writeFileSync(tokens, JSON.stringify(Array.from(ids)));
  const on = adapter === undefined ? [] : ["--adapter", adapter];
  const args = ["logprobs", "--model", file, ...on, "--tokens", tokens, "--gpu", "off", "--json"];
  const said = spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], { encoding: "utf8" });
  expect(said.status, said.stderr).toBe(0);
  return (JSON.parse(said.stdout) as { logprobs: number[] }).logprobs;
}

beforeAll(async () => {
  const python = await ensureLearnerPython();
  ({ played } = await playCases(tested, few));
  const asked = tested.flatMap((one) => {
    const { alone, batched } = playedBy(one);
    return [alone, ...batched].map((conversation) => ({ one, conversation }));
  });
  reference.ask(python, "f16", asked);
  rounding = reference.betweenTwo(plain, playedBy(plain));
  engine = await loadEngine({ ...few, ...fewer, model, contextPerSequence: 512 });
});
const lines: string[] = [];
afterAll(async () => {
  await engine?.close();
  rmSync(folder, { recursive: true });
  const about = `log-probabilities on ${gpu.name} against transformers (f32): mean and largest |Δ|, of those allowed`;
  console.log([about, ...lines, `between two computations on it at most ${rounding?.toExponential(1)}`].join("\n  "));
});

it("the engine says that it computes there, with every layer", () => {
  expect(engine.info.gpu).toBe(gpu.backend);
  const { backend, device, offloadedLayers, layers, weights, kv } = engine.info.compute;
  expect({ backend, device, weights, kv }).toEqual({
    backend: gpu.backend,
    device: gpu.name,
    weights: "F16",
    kv: "F16",
  });
  expect(layers).toBeGreaterThan(0);
  expect(offloadedLayers).toBe(layers);
  expect(engine.memory().devices[0]?.totalBytes).toBeGreaterThan(0);
});

describe("log-probabilities", () => {
  it.each(tested)("equal transformers', but for rounding: $family, $weights, $adapter", (one) => {
    const ways = reference.ways(one, playedBy(one));
    lines.push(`${caseName(one).padEnd(20)} ${figuresOf(ways)}`);
    expectWithin(ways);
  });

  it.each(tested)("equal the CPU's, but for rounding: $family, $weights, $adapter", (one) => {
    const { alone, scored } = playedBy(one);
    const on = one.adapter === "none" ? undefined : modelPath(`${one.family}-tiny-${one.adapter}.gguf`);
    const cpu = scoresOnCpu(caseModel(one), on, alone.tokens);
    expect(cpu).toHaveLength(scored.length);
    const { mean, max } = difference(scored.map((value, i): Pair => [value, cpu[i] as number]));
    // Each of both is off by its own rounding; a CPU's is the smaller one.
    const limit = reference.ways(one, playedBy(one)).find(({ way }) => way === "scored")?.limit;
    lines.push(`${caseName(one).padEnd(20)} scored, from the CPU's: ${mean.toExponential(1)} ${max.toExponential(1)}`);
    expect(mean).toBeLessThanOrEqual(2 * (limit?.mean ?? Number.NaN));
    expect(max).toBeLessThanOrEqual(2 * (limit?.max ?? Number.NaN));
  });

  it("of a pass with more rows than a tile of a product has, with an adapter, equal the CPU's", async () => {
    // On llvmpipe three passes of 32 rows and one of 1, whose kernels there are.
    const tokens = prompt("more rows than a tile of a product has; ".repeat(3)).slice(0, 98);
    const asked = { model, gpu: gpu.backend, threads: 1, sequences: 1, contextPerSequence: tokens.length };
    const long = await loadEngine({ ...asked, name: "long" });
    await long.useAdapter(adapter);
    const scored = await long.score(tokens);
    await long.close();
    const cpu = scoresOnCpu(model, adapter, tokens);
    const { mean, max } = difference(cpu.map((value, i): Pair => [scored[i] as number, value]));
    lines.push(`98 tokens, adapter-1, scored, from the CPU's: ${mean.toExponential(1)} ${max.toExponential(1)}`);
    const [limit] = reference
      .ways(plain, playedBy(plain))
      .flatMap(({ way, limit }) => (way === "scored" ? [limit] : []));
    expect(mean).toBeLessThanOrEqual(2 * (limit?.mean ?? Number.NaN));
  });

  it.each(tested.filter((one) => one.adapter !== "none"))(
    "are changed by an adapter by more than rounding: $family, $weights, $adapter",
    (one) => {
      const { scored, scoredWithout } = playedBy(one);
      const gap = difference(scored.map((value, i): Pair => [value, scoredWithout[i] as number]));
      expect(gap.mean).toBeGreaterThan(0.1);
      expect(gap.max).toBeGreaterThan(10 * rounding);
    },
  );
});

describe("a turn", () => {
  it("evaluates only what is appended to the ones before", () => evaluatesOnlyWhatIsAppended(engine, 97, rounding));
  it("keeps what it has when it is cancelled in mid-decode", () => keepsWhatItHasWhenCancelled(engine, rounding));
  it("keeps what it has at its deadline", () => keepsWhatItHasAtItsDeadline(engine, rounding));
  it("forks the prompt of its group", () => evaluatesAPromptOnce(engine, { members: 2, length: 97 }, rounding));
  it("takes one pass over the weights a batch, most of them with the graph of the one before", async () => {
    // A pass as wide as its largest batch.
    const wide = await loadEngine({ ...few, model, name: "wide", contextPerSequence: 512 });
    await wide.open(prompt("x".repeat(97))).generate({ maxTokens: 24, sampling: { seed: 5 }, stop: [] });
    const { batches, passes, graphsReused } = wide.stats();
    await wide.close();
    expect(batches).toBeGreaterThan(24);
    expect(passes).toBe(batches);
    expect(graphsReused).toBeGreaterThan(passes / 2);
  });
});

describe("an adapter", () => {
  it("is one engine's alone, where another has the same weights beside it", async () => {
    const beside = await loadEngine({ ...few, model, name: "beside", contextPerSequence: 512 });
    await hasAnAdapterOfItsOwn(engine, beside, adapter, rounding);
    await beside.close();
  });
});

describe("sleep", () => {
  it.each([false, true])("and wake restore everything (weights: %s)", async (weights) => {
    await engine.useAdapter(adapter);
    await sleepsAndWakes(engine, weights, rounding);
    await engine.useAdapter(null);
  });

  it.each([false, true])("takes a new adapter, which plays after wake (weights: %s)", async (weights) => {
    const tokens = prompt("the scores of these tokens");
    const score = () => scores(engine, tokens, 1);
    const without = await score();
    await engine.useAdapter(adapter);
    const expected = await score();
    await engine.useAdapter(null);
    await engine.sleep({ weights });
    await engine.useAdapter(adapter);
    await engine.wake();
    expect(engine.adapter).toBe(adapter);
    const after = await score();
    expect(largestDifference(after, expected)).toBeLessThan(rounding);
    expect(largestDifference(after, without)).toBeGreaterThan(10 * rounding);
    await engine.useAdapter(null);
  });

  // llvmpipe's memory is this process's, of which the kernel says how much is resident.
  const device = gpu.software ? " (skipped: a software GPU has no memory of its own)" : "";
  it.skipIf(gpu.software)(
    `gives the device's memory back, with weights also these, and wake takes it again${device}`,
    async () => {
      const INNER = 81_920;
      const CONTEXT = 131_072;
      const large = await loadEngine({
        ...few,
        model: newModel({ inner: INNER }),
        contextPerSequence: CONTEXT,
        pooledKv: false,
      });
      // f16: K and V of two layers and two heads of 16 numbers. Two layers of three matrices in f32. A pool has cells of padding too.
      const bytes = { kv: 2 * CONTEXT * 2 * 2 * 32 * 2, weights: 2 * 3 * INNER * 64 * 4 };
      expect(large.memory().kv).toBe(bytes.kv);
      await givesMemoryBack(
        large,
        bytes,
        () => held(large),
        async () => undefined,
      );
      await large.close();
    },
  );
});

it("workers that are terminated in mid-decode do no harm to the others", () =>
  outlivesItsWorkers(
    { workers: gpu.software ? 8 : 20, atOnce: 1, members: 1, tokens: 32, step: 30 },
    options({ ...few, model }),
    rounding,
  ));
