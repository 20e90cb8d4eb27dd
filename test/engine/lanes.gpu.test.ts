/** Lanes and long passes on a GPU: they change who computes beside whom, not what comes out; and the plan of their memory. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import type { Generated } from "../../src/core/engine/sequence.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelShape } from "../../src/engine/models.js";
import { contextsMemory } from "../../src/machine/plan/engine-memory.js";
import { everything } from "../support/everything.js";
import { few, gpu } from "../support/gpu.js";
import { scores } from "./behaviours.js";
import { concat, largestDifference, prompt } from "./support.js";

const model = modelPath("qwen3-tiny-f16.gguf");
const adapter = modelPath("qwen3-tiny-adapter-1.gguf");
/**
 * Passes of other shapes: rounding of 16-bit KV and products. What is of another adapter, or another sequence, differs by
 * more than ten times as much.
 */
const ROUNDING = 0.05;
const TOKENS = 24;
const LONG = 2048;
/** llvmpipe's passes have 32 rows at most (`yarn test:gpu` gives it vectors of 128 bits): there long ones are as any other. */
const narrow = gpu.software && gpu.name.includes("128 bits");
const withLong = everything || !narrow;

const engines = new Map<string, LocalEngine>();
const said: string[] = [];
async function load(name: string, more: Partial<LocalEngineOptions>): Promise<LocalEngine> {
  const engine = await loadEngine({ ...few, ...more, model, name, contextPerSequence: 512 }, (line) => said.push(line));
  engines.set(name, engine);
  return engine;
}

let one: LocalEngine;
let two: LocalEngine;
beforeAll(async () => {
  one = await load("one", { lanes: 1 });
  two = await load("two", { lanes: 2, threads: 2 });
  if (withLong) await load("long", { lanes: 2, threads: 2, ubatch: LONG });
});
afterAll(async () => {
  for (const engine of engines.values()) await engine.close();
});

/** Two sequences of their own play at once, with two lanes one in each; one turn after the other. */
async function play(engine: LocalEngine, temperature: number) {
  const starts = ["the first of two questions", "the second, another one"].map((text) => prompt(text));
  const members = starts.map((start) => engine.open(start));
  const turns: Generated[][] = [];
  for (const seed of [0, 10]) {
    const turn = (index: number) => ({ maxTokens: TOKENS, sampling: { seed: seed + index, temperature }, stop: [] });
    turns.push(await Promise.all(members.map((member, index) => member.generate(turn(index)))));
  }
  for (const member of members) member.close();
  return members.map((_, index) => ({ start: starts[index] as Int32Array, turns: turns.map((both) => both[index]) }));
}

/** Two engines compute the same: what one samples has these log-probabilities in the other. */
async function computesAlike(engine: LocalEngine, other: LocalEngine, rounding = ROUNDING): Promise<void> {
  for (const { start, turns } of await play(engine, 1)) {
    const tokens = turns.flatMap((turn) => [...(turn?.tokens ?? [])]);
    const logprobs = turns.flatMap((turn) => [...(turn?.logprobs ?? [])]);
    const scored = await scores(other, concat(start, Int32Array.from(tokens)), start.length);
    expect(largestDifference(logprobs, scored)).toBeLessThan(rounding);
  }
}

/**
 * And they draw the same. Rounding makes a text another one where a uniform number is at the boundary of two tokens, the
 * sooner the more tokens are likely; other numbers would do so at once.
 */
async function drawsAlike(engine: LocalEngine, other: LocalEngine): Promise<void> {
  const texts = async (of: LocalEngine) => (await play(of, 0.3)).map(({ turns }) => [...(turns[0]?.tokens ?? [])]);
  const [here, there] = [await texts(engine), await texts(other)];
  const same = here.map((tokens, i) => tokens.findIndex((token, at) => token !== there[i]?.[at]));
  const common = same.map((first) => (first === -1 ? TOKENS : first));
  expect(common.reduce((sum, tokens) => sum + tokens, 0)).toBeGreaterThanOrEqual(TOKENS / 2);
}

/** Scores at once, in all lanes. */
async function everywhere(engine: LocalEngine): Promise<Float32Array[]> {
  const tokens = prompt("what an adapter makes of these tokens");
  return await Promise.all(Array.from({ length: engine.info.lanes }, () => scores(engine, tokens, 1)));
}

it("the engine says how many lanes there are, and how long a pass is", () => {
  expect([one.info.lanes, one.info.threads, two.info.lanes, two.info.threads]).toEqual([1, 1, 2, 2]);
  if (!withLong) return;
  expect(engines.get("long")?.info.ubatch).toBe(narrow ? 32 : LONG);
  expect(said.filter((line) => line.includes("tokens at most"))).toHaveLength(narrow ? 1 : 0);
});

/** Of one and the other, what few passes compute; adapters in long passes with `--full` alone. */
describe.each(withLong ? ["two", "long"] : ["two"])("an engine with lanes: %s", (name) => {
  const engine = () => engines.get(name) as LocalEngine;
  const withAdapter = async (path: string | null) => {
    for (const each of [engine(), one]) await each.useAdapter(path);
  };

  it("computes and draws what one lane does, each lane for its sequences", async () => {
    await withAdapter(null);
    const before = engine().stats();
    await drawsAlike(engine(), one);
    const { batches, decoded } = engine().stats();
    expect(decoded - before.decoded).toBe(4 * TOKENS);
    // One lane would evaluate both in the same batches.
    expect(batches - before.batches).toBeGreaterThanOrEqual(4 * TOKENS);
    await computesAlike(engine(), one);
  });

  const adapters = name === "two" || everything ? it : () => undefined;
  adapters("has adapters in all lanes, also after sleep and wake", async () => {
    await withAdapter(null);
    const without = (await everywhere(one))[0] as Float32Array;
    await withAdapter(adapter);
    const expected = (await everywhere(one))[0] as Float32Array;
    for (const weights of [undefined, false, true]) {
      if (weights !== undefined) {
        await engine().sleep({ weights });
        expect(engine().memory()).toMatchObject({ kv: 0, compute: 0 });
        await engine().wake();
      }
      const lanes = await everywhere(engine());
      expect(lanes).toHaveLength(2);
      for (const lane of lanes) {
        expect(largestDifference(lane, expected)).toBeLessThan(ROUNDING);
        expect(largestDifference(lane, without)).toBeGreaterThan(10 * ROUNDING);
      }
    }
    // The adapter's random numbers make logits several times as large, and their rounding.
    await computesAlike(engine(), one, 4 * ROUNDING);
    await withAdapter(null);
    for (const lane of await everywhere(engine())) expect(largestDifference(lane, without)).toBeLessThan(ROUNDING);
  });
});

it("the memory plan has their buffers, of KV and of a pass, as llama.cpp reports them", async () => {
  const shape = await modelShape(model);
  const MB = 2 ** 20;
  for (const engine of engines.values()) {
    const { lanes, ubatch, compute, sequences: concurrency, contextPerSequence: context } = engine.info;
    const { sampling } = compute;
    const plan = contextsMemory({ shape, concurrency, context, lanes, ubatch, sampling, gpu: gpu.backend });
    const { kv, buffers } = engine.memory();
    const onHost = buffers.filter(({ place }) => /Host|CPU/.test(place)).reduce((sum, one) => sum + one.compute, 0);
    const onDevice = buffers.reduce((sum, one) => sum + one.compute, 0) - onHost;
    expect(kv).toBe(plan.kv);
    expect(Math.abs(plan.compute - onDevice)).toBeLessThan(2 * MB);
    expect(Math.abs(plan.mask + plan.inputs - onHost)).toBeLessThan(2 * MB);
  }
});
