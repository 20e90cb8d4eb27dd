/** The real llama.cpp for CUDA on null cards: it loads, decodes, changes adapters, sleeps and wakes, and gives all back. */
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { numbersOf } from "../../bench/card/case.js";
import { modelPath } from "../../bench/models.js";
import { modelHeader } from "../../src/engine/models.js";
import { cardNames, Machine, nameOf, root } from "./support.js";

const model = modelPath("qwen2-tiny-f16.gguf");
const adapter = modelPath("qwen2-tiny-adapter-1.gguf");
const MEMORY = /memory/i;

let machine: Machine;
afterEach(() => machine.remove());

interface Line {
  readonly step: string;
  readonly error?: string;
  readonly known?: string;
  readonly used?: number;
  readonly tokens?: number;
  /** Of the engine's life. */
  readonly passes?: number;
  readonly compute?: { readonly device: string; readonly layers: number; readonly offloadedLayers: number };
}

async function life(steps: readonly unknown[], more: object = {}): Promise<Line[]> {
  const wanted = JSON.stringify({ model, adapter, steps, ...more });
  const { code, stdout, stderr } = await machine.run(process.execPath, [
    join(root, "test/null-card/engine.mjs"),
    wanted,
  ]);
  expect(code, stderr).toBe(0);
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

/** The process of the engine; another one asks for the cards. */
const engineOf = ({ pid }: { pid: number }) => machine.counted().find((one) => one.pid === pid);
const engine = () => engineOf(machine.counted().find(({ cmd }) => cmd.includes("engine.mjs")) ?? { pid: 0 });

describe.each(cardNames)("on a %s", (profile) => {
  it("an engine lives through adapters, sleep and wake, and leaves nothing on the card", async () => {
    machine = new Machine([profile]);
    const lines = await life(["generate", "adapter", "generate", "sleep", "wake", "generate", "close"]);
    expect(lines.filter(({ error }) => error)).toEqual([]);
    const [load, first, , , asleep, awake] = lines;
    expect(load?.compute?.device).toBe(nameOf(profile));
    expect(load?.compute?.offloadedLayers).toBe(load?.compute?.layers);
    expect(first?.tokens).toBe(4 * 16);
    expect(asleep?.used).toBeLessThan(first?.used ?? 0);
    expect(awake?.used).toBeGreaterThan(asleep?.used ?? Number.POSITIVE_INFINITY);
    const left = engine();
    expect(left?.live).toBe(left?.context);
    expect(left?.pinned).toBe(0);
    expect(left?.["graph launches"]).toBeGreaterThan(0);
    expect(machine.unimplemented()).toEqual([]);
    expect(
      machine.counted().flatMap((one) => Object.keys(one).filter((key) => key.startsWith("launch refused"))),
    ).toEqual([]);
  });
});

it("bytes of weights that a pass reads are counted by the arguments of llama.cpp's kernels", async () => {
  const read = async (...steps: string[]) => {
    machine = new Machine(["4090"]);
    // One sequence: which passes there are does not depend on when turns are asked for.
    const lines = await life([...steps, "close"], { sequences: 1 });
    expect(lines.filter(({ error }) => error)).toEqual([]);
    const bytes = Number(engine()?.["weights read bytes"]);
    machine.remove();
    return { bytes, passes: lines.at(-2)?.passes ?? 0 };
  };
  const once = await read("generate");
  const twice = await read("generate", "generate");
  const each = (twice.bytes - once.bytes) / (twice.passes - once.passes);
  const header = await modelHeader(model);
  const all = 2 * numbersOf(header);
  // Each of the layers' once, and where more than 16 rows are computed converted to f32: read, written, read, 2 + 4 + 4 bytes.
  expect(each).toBeGreaterThanOrEqual(all - 2 * header.embedding * header.vocabulary);
  expect(each).toBeLessThan(5 * all);
});

it("of two cards the engine takes the one that --device names, and leaves the other alone", async () => {
  machine = new Machine(["3060", "4090"]);
  const lines = await life(["generate", "close"], { device: 1 });
  expect(lines.filter(({ error }) => error)).toEqual([]);
  expect(lines[0]?.compute?.device).toBe(nameOf("4090"));
  // Each process has a context on each card that it touches.
  expect(engine()?.context).toBe(400 * 2 ** 20);
});

it.each([
  ["the KV cache", "12030", 8192],
  ["the weights", "12287", 256],
])("a card that has no room for %s when the engine loads is an error in one line", async (_, taken, context) => {
  machine = new Machine(["3060"], { env: { NULLCUDA_CONTEXT_MB: taken } });
  const [load, ...rest] = await life([], { context });
  expect(load?.error).toMatch(MEMORY);
  expect(load?.error).not.toContain("\n");
  expect(rest).toEqual([]);
  expect(engine()?.live).toBe(engine()?.context);
});

it("a card that fills up when the engine has loaded: turns need no more of it, and an adapter waits for room", async () => {
  machine = new Machine(["4090"]);
  const lines = await life([
    "full",
    "generate",
    "adapter",
    "generate",
    { limit: 0 },
    "adapter",
    "full",
    "generate",
    "close",
  ]);
  const [, , first, refused, second, taken, , third, closed] = lines;
  expect(refused?.error).toMatch(MEMORY);
  expect(refused?.error).not.toContain("\n");
  expect([taken?.error, closed?.error]).toEqual([undefined, undefined]);
  for (const turn of [first, second, third]) expect(turn?.tokens).toBe(4 * 16);
  expect(engine()?.live).toBe(engine()?.context);
});

it("a card that has filled up while the engine slept: it sleeps on, and wakes when there is room", async () => {
  machine = new Machine(["4090"]);
  const full = 430e6;
  const lines = await life(["generate", "sleep", { limit: full }, "wake", { limit: 0 }, "wake", "generate", "close"]);
  const [, , asleep, refused, awake, after] = lines;
  expect(asleep?.used).toBeLessThan(full);
  expect(refused?.known).toBe("EngineOutOfMemory");
  expect(awake?.error).toBeUndefined();
  expect(after?.tokens).toBe(4 * 16);
  expect(engine()?.live).toBe(engine()?.context);
});
