/** What the policy asks of its engine, over the sleep of an update. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { EngineOutOfMemory } from "../../src/core/engine/errors.js";
import type { GatherOptions } from "../../src/core/gather/gather.js";
import { EnginePolicy } from "../../src/machine/play/engine-policy.js";
import { scenarios } from "../train/support/fakes.js";

const gathered = vi.hoisted(() => [] as GatherOptions[]);
vi.mock("../../src/core/gather/gather.js", async (load) => ({
  ...(await load<typeof import("../../src/core/gather/gather.js")>()),
  gather: async (options: GatherOptions) => {
    gathered.push(options);
    return { groups: [], failures: [], interrupted: false, seconds: 0 };
  },
}));

const folder = mkdtempSync(join(tmpdir(), "hone-policy-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** An engine with memory for so many sequences when it wakes. */
function policyOf(room: { for: number }, lanes = 1) {
  const asked: string[] = [];
  const said: string[] = [];
  let adapter: string | null = null;
  let asleep = false;
  const engine = {
    info: { lanes, replicas: lanes, contextPerSequence: 64 },
    get adapter() {
      return adapter;
    },
    useAdapter: async (path: string | null) => {
      asked.push(`adapter ${path === null ? null : "set"}${asleep ? " asleep" : ""}`);
      adapter = path;
    },
    sleep: async ({ weights }: { weights: boolean }) => {
      asleep = true;
      asked.push(`sleep ${weights ? "without weights" : "with weights"}`);
    },
    wake: async ({ sequences }: { sequences: number }) => {
      asked.push(`wake ${sequences}`);
      if (sequences > room.for) throw new EngineOutOfMemory("full");
      asleep = false;
    },
    score: async (tokens: Int32Array, { from }: { from: number }) => {
      asked.push(`score ${tokens.length} from ${from}`);
      return Float32Array.from([-1, -2]);
    },
  } as unknown as LocalEngine;
  const policy = new EnginePolicy(engine, {
    settings: {
      task: "t",
      taskOptions: {} as never,
      player: {
        kind: "engine",
        engine: { model: "m.gguf", sequences: 8, contextPerSequence: 64 },
        sampling: { temperature: 1 },
        adapter: null,
      },
      limits: {} as never,
    },
    concurrency: 8,
    maxExceptions: 0,
    releaseWeights: true,
    onFailure: () => undefined,
    log: (line) => said.push(line),
  });
  const play = async () => {
    const signal = new AbortController().signal;
    await policy.play({
      seedName: "r",
      step: 1,
      scenarios,
      groupSize: 2,
      have: [],
      signal,
      onTrajectory: () => undefined,
    });
    return gathered.at(-1)?.concurrency;
  };
  return { policy, asked, said, play };
}

function adapterWithProbe(name: string) {
  const path = join(folder, `${name}.gguf`);
  const probe = { version: 1, ids: [5, 6, 7], scored: [1, 2], logprobs: [-1, -2], before: [-1, -1] };
  writeFileSync(join(folder, "probe.json"), JSON.stringify(probe));
  return { path, sha256: name };
}

describe("the engine's policy", () => {
  it("sets the adapter while the engine sleeps, and looks at its probe once, when it is awake", async () => {
    const { policy, asked } = policyOf({ for: 8 });
    await policy.sleep();
    await policy.use(adapterWithProbe("one"));
    await policy.wake();
    expect(await policy.probe()).toMatchObject({ after: 0, before: 0.5, n: 2 });
    expect(asked.filter((one) => !one.startsWith("score"))).toEqual([
      "sleep without weights",
      "adapter set asleep",
      "wake 8",
    ]);
    await policy.use(adapterWithProbe("one"));
    expect(await policy.probe()).toBeNull();
    await policy.use(null);
    expect(await policy.probe()).toBeNull();
    expect(asked.at(-1)).toBe("adapter null");
  });

  it("scores the probe of an update that left the adapter as it was, and not the one before", async () => {
    const { policy, asked } = policyOf({ for: 8 });
    const probed = async (scored: number[]) => {
      const { path } = adapterWithProbe("same");
      const values = { logprobs: [-1, -2], before: [-1, -2] };
      writeFileSync(join(folder, "probe.json"), JSON.stringify({ version: 1, ids: [5, 6, 7, 8], scored, ...values }));
      await policy.use(null);
      await policy.use({ path, sha256: "same" });
      asked.length = 0;
      expect(await policy.probe()).toEqual({ after: 0, before: 0, n: 2, moved: null });
      return asked;
    };
    const [probe, start] = ["score 4 from 2", "score 4 from 1"];
    expect(await probed([2, 3])).toEqual([probe, start]);
    // Loaded again, it only has to be there.
    expect(await probed([2, 3])).toEqual([start]);
    expect(await probed([1, 2])).toEqual([start, start]);
  });

  it("wakes with half the sequences where memory does not suffice, and plays no more at once from then on", async () => {
    const room = { for: 8 };
    const { policy, asked, said, play } = policyOf(room);
    expect(await play()).toBe(8);
    await policy.sleep();
    room.for = 3;
    await policy.wake();
    expect(asked).toEqual(["sleep without weights", "wake 8", "wake 4", "wake 2"]);
    expect(said.at(-1)).toBe("the engine did not fit into memory; from now on --concurrency 2 instead of 4");
    expect(await play()).toBe(2);
    room.for = 8;
    await policy.sleep();
    await policy.wake();
    await policy.wake();
    expect(asked.slice(-2)).toEqual(["sleep without weights", "wake 2"]);
  });

  it("cannot wake with fewer sequences than lanes", async () => {
    const { policy, asked } = policyOf({ for: 0 }, 2);
    await policy.sleep();
    await expect(policy.wake()).rejects.toThrow(EngineOutOfMemory);
    expect(asked.slice(1)).toEqual(["wake 8", "wake 4", "wake 2"]);
  });
});
