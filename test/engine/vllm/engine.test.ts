/** The engine over vLLM servers, on stand-ins that compute with hone's own engine. */
import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LocalEngine } from "../../../src/core/engine/engine.js";
import { loadEngine } from "../../../src/engine/factory.js";
import {
  largest,
  localEngine,
  openOn as open,
  prompt as promptOf,
  ROUNDING,
  type Served,
  type StandIn,
  startStandIn,
  vllmOptions,
  writeAdapter,
} from "./support.js";

let ours: LocalEngine;
let servers: StandIn[];

beforeAll(async () => {
  ours = await localEngine();
  servers = await Promise.all([startStandIn(), startStandIn()]);
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.kill()));
  await ours.close();
});

const prompt = () => promptOf(ours);
/** Names of adapters that a server has. */
async function loaded({ url }: StandIn): Promise<string[]> {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as {
    data: { id: string; parent: string | null }[];
  };
  return data.flatMap(({ id, parent }) => (parent === null ? [] : [id]));
}

describe("a sequence on vLLM servers", () => {
  let engine: Served;
  beforeAll(async () => {
    engine = await open(servers);
  });
  afterAll(() => engine.close());

  it("samples what the engine of this process does, over turns that append, with the log-probabilities of what it sampled from", async () => {
    const append = ours.tokenize("\nPlease say more.", { special: false });
    const [theirs, mine] = [engine.open(prompt()), ours.open(prompt())];
    for (const turn of [{}, { append }]) {
      const options = { ...turn, maxTokens: 40, sampling: { temperature: 0, seed: 1 }, stop: ours.info.endTokens };
      const expected = await mine.generate(options);
      const got = await theirs.generate(options);
      expect([...got.tokens]).toEqual([...expected.tokens]);
      expect(got.stop).toBe(expected.stop);
      expect(theirs.length).toBe(mine.length);
    }
    theirs.close();
    mine.close();

    const sequence = engine.open(prompt());
    const { tokens, logprobs } = await sequence.generate({ maxTokens: 30, sampling: { seed: 5 }, stop: [] });
    sequence.close();
    const scores = await ours.score(Int32Array.from([...prompt(), ...tokens]), { from: prompt().length });
    expect(tokens).toHaveLength(30);
    expect(largest(logprobs, scores)).toBeLessThan(ROUNDING);
  });

  it("is the base model's by name where it is to stay that, whatever adapter is loaded", async () => {
    await engine.useAdapter(await writeAdapter("trained"));
    const frozen = engine.frozen(512);
    const expected = await ours.score(prompt());
    expect(largest(await engine.score(prompt()), expected)).toBeGreaterThan(0.1);
    expect(largest(await frozen.score(prompt()), expected)).toBeLessThan(ROUNDING);
    const sequence = frozen.open(prompt());
    const { tokens, logprobs } = await sequence.generate({ maxTokens: 20, sampling: { seed: 5 }, stop: [] });
    sequence.close();
    const scores = await ours.score(Int32Array.from([...prompt(), ...tokens]), { from: prompt().length });
    expect(largest(logprobs, scores)).toBeLessThan(ROUNDING);
    expect(frozen.info.contextPerSequence).toBe(512);
    await engine.useAdapter(null);
  });

  it("repeats with its seed, and differs with another", async () => {
    const draw = async (seed: number) => {
      const sequence = engine.open(prompt());
      const { tokens } = await sequence.generate({ maxTokens: 20, sampling: { seed }, stop: [] });
      sequence.close();
      return [...tokens];
    };
    expect(await draw(2)).toEqual(await draw(2));
    expect(await draw(3)).not.toEqual(await draw(2));
  });

  it("ends at the context, at its deadline, and when it is aborted, keeping its tokens", async () => {
    const sequence = engine.open(prompt());
    const options = { maxTokens: 2000, sampling: { seed: 1 }, stop: [] };
    expect((await sequence.generate({ ...options, seconds: 0 })).stop).toBe("deadline");
    expect((await sequence.generate({ ...options, signal: AbortSignal.abort() })).stop).toBe("cancelled");
    expect(sequence.length).toBe(prompt().length);
    const filled = await sequence.generate(options);
    expect(filled.stop).toBe("context");
    expect(sequence.length).toBe(1024);
    expect((await sequence.generate({ ...options, append: Int32Array.of(1) })).stop).toBe("context");
    sequence.close();
  });

  it("refuses what vLLM cannot do here, and prompts that cannot be", async () => {
    expect(() => engine.open(new Int32Array())).toThrow("at least one token");
    expect(() => engine.open(Int32Array.of(99_999))).toThrow("99999, which is no token");
    expect(() => engine.open(new Int32Array(1024))).toThrow("does not fit");
    const sequence = engine.open(prompt());
    await expect(sequence.generate({ maxTokens: 1, sampling: { seed: 1 }, stop: [], likeliest: 3 })).rejects.toThrow(
      "names no likeliest tokens",
    );
    sequence.close();
  });
});

describe("adapters on vLLM servers", () => {
  it("are on all servers under names never used before, each scored; the last one's folder stays for a step after its unload", async () => {
    const options = vllmOptions(servers);
    const engine = await loadEngine(options);
    const folder = () => readdirSync(options.adapters).sort();
    const files = [await writeAdapter("one"), await writeAdapter("two")] as const;
    const withAdapter = await localEngine("one");
    await withAdapter.useAdapter(files[0]);
    try {
      const names = new Set<string>();
      for (const file of [files[0], files[1], files[0]]) {
        await engine.useAdapter(file);
        expect(engine.adapter).toBe(file);
        const there = await Promise.all(servers.map(loaded));
        expect(there[0]).toHaveLength(1);
        expect(there[1]).toEqual(there[0]);
        expect(names).not.toContain(there[0]?.[0]);
        names.add(there[0]?.[0] as string);
        // This one, and the one that was unloaded just now.
        expect(folder()).toHaveLength(Math.min(2, names.size));
      }
      const both = await Promise.all([engine.score(prompt()), engine.score(prompt())]);
      const expected = await withAdapter.score(prompt());
      for (const scores of both) expect(largest(scores, expected)).toBeLessThan(ROUNDING);
      expect(largest(expected, await ours.score(prompt()))).toBeGreaterThan(0.05);

      await engine.useAdapter(null);
      expect(await Promise.all(servers.map(loaded))).toEqual([[], []]);
      expect(largest(await engine.score(prompt()), await ours.score(prompt()))).toBeLessThan(ROUNDING);
    } finally {
      await engine.close();
      await withAdapter.close();
    }
    expect(folder()).toEqual([]);
  });

  it("a new one, whose B is zero, is none that a server leaves out", async () => {
    const engine = await open(servers);
    await engine.useAdapter(await writeAdapter("new", { zero: true }));
    expect(largest(await engine.score(prompt()), await ours.score(prompt()))).toBeLessThan(ROUNDING);
    await engine.close();
  });

  it("an adapter of a process that is gone is unloaded and deleted at the next start", async () => {
    const options = vllmOptions(servers);
    const engine = await loadEngine(options);
    await engine.useAdapter(await writeAdapter("left"));
    const [name = ""] = await loaded(servers[0] as StandIn);
    // Above any that Linux gives: the number of a process that has ended may be another's by now.
    const left = name.replace(`-${process.pid}-`, `-${2 ** 22 + 1}-`);
    expect(left).not.toBe(name);
    cpSync(join(options.adapters, name), join(options.adapters, left), { recursive: true });
    const body = JSON.stringify({ lora_name: left, lora_path: join(options.adapters, left) });
    expect((await fetch(`${servers[0]?.url}/v1/load_lora_adapter`, { method: "POST", body })).status).toBe(200);

    const next = await loadEngine(options);
    expect(await loaded(servers[0] as StandIn)).toEqual([name]);
    expect(readdirSync(options.adapters)).toEqual([name]);
    await next.close();
    await engine.close();
  });
});
