/** The options that a plan names where a run does not fit. */
import { describe, expect, it } from "vitest";
import { fitToMachine } from "../../src/plan/fit.js";
import type { PlanInput } from "../../src/plan/input.js";
import { planMemory } from "../../src/plan/memory.js";
import { fits, type Room, waysToFit } from "../../src/plan/remedies.js";
import { input, judge } from "./support.js";

const hostPeak = (change: Partial<PlanInput> = {}) => planMemory({ ...input, ...change }).host.peak;

/** All that somebody can ask of an engine. */
const asked = { lanes: 16, lanesGiven: true, ubatch: 2048, sampling: "device" } as const;

describe("what makes a run fit", () => {
  const OPTIONS: Record<string, (value: string | undefined) => Partial<PlanInput>> = {
    "--gradient-checkpointing": () => ({ gradientCheckpointing: true }),
    "--release-weights": () => ({ releaseWeights: true }),
    "--learner-lifetime": (value) => ({ learnerLifetime: value as PlanInput["learnerLifetime"] }),
    "--micro-batch-tokens": (value) => ({ microBatchTokens: Number(value) }),
    "--lanes": (value) => ({ lanes: Number(value) }),
    "--ubatch": (value) => ({ ubatch: Number(value) }),
    "--sampling": () => ({ sampling: "host" }),
    "--concurrency": (value) => ({ concurrency: Number(value) }),
    "--context": (value) => ({ context: Number(value) }),
  };
  const changeOf = (flag: string) => {
    const [name, value] = flag.split(" ");
    return OPTIONS[name as string]?.(value);
  };
  const judgedOf = (flag: string) => {
    const [name, value] = flag.split(" ");
    if (name === "--judge-concurrency") return { concurrency: Number(value) };
    return name === "--judge-input-tokens" ? { inputTokens: Number(value) } : {};
  };
  const applied = (flags: readonly string[], from: PlanInput): PlanInput =>
    Object.assign({}, from, ...flags.map(changeOf), {
      judge: from.judge && Object.assign({}, from.judge, ...flags.map(judgedOf)),
    }) as PlanInput;

  it("is nothing for a run that fits, and unknown for one that never does", () => {
    expect(waysToFit(input, { host: hostPeak(), gpu: 0 })).toEqual([]);
    expect(waysToFit(input, { host: 1e9, gpu: 0 })).toBeUndefined();
  });

  it("is one change where one is enough", () => {
    expect(waysToFit(input, { host: hostPeak({ gradientCheckpointing: true }), gpu: 0 })).toEqual([
      "--gradient-checkpointing",
    ]);
    const checked = { ...input, gradientCheckpointing: true, concurrency: 64 };
    const room = { host: planMemory({ ...checked, concurrency: 16 }).host.peak, gpu: 0 };
    expect(waysToFit(checked, room)).toEqual(["--concurrency 16"]);
  });

  it("never names a change that is not needed, nor goes further with one than is needed", () => {
    for (const gpu of [false, "cuda"] as const) {
      for (let room = 2e9; room < 16e9; room += 0.25e9) {
        const limits: Room = gpu ? { host: 64e9, gpu: room } : { host: room, gpu: 0 };
        for (const more of [{}, asked, { judge }]) {
          const wanted: PlanInput = { ...input, gpu, concurrency: gpu ? 64 : 16, ...more };
          const flags = waysToFit(wanted, limits);
          if (!flags) continue;
          const suits = (changes: readonly string[]) => {
            const changed = applied(changes, wanted);
            return changed.lanes <= changed.concurrency && fits(changed, limits);
          };
          expect(suits(flags)).toBe(true);
          for (const flag of flags) {
            const others = flags.filter((other) => other !== flag);
            expect(suits(others), `${gpu} ${room}: ${flags} without ${flag}`).toBe(false);
            const [name, value] = flag.split(" ");
            if (!Number.isFinite(Number(value))) continue;
            const milder = [...others, `${name} ${2 * Number(value)}`];
            expect(suits(milder), `${gpu} ${room}: ${flags} with twice ${flag}`).toBe(false);
          }
        }
      }
    }
  });
});

describe("a number of lanes that somebody asked for", () => {
  const many: PlanInput = {
    ...input,
    microBatchTokens: 512,
    context: 2048,
    concurrency: 512,
    lanes: 64,
    lanesGiven: true,
  };
  const room = (concurrency: number) => ({ host: planMemory({ ...many, concurrency }).host.peak, gpu: 0 });

  it("stays, and leaves each lane a rollout", () => {
    expect(waysToFit(many, room(128))).toEqual(["--concurrency 128"]);
    expect(waysToFit(many, room(64))).toEqual(["--concurrency 64"]);
    // Half of 96 is fewer than the lanes. With so long a context the KV is most of the memory, and fewer lanes save little.
    const long = { ...many, context: 32_768, gradientCheckpointing: true };
    const { host } = planMemory({ ...long, concurrency: 64 });
    expect(waysToFit({ ...long, concurrency: 96 }, { host: host.peak, gpu: 0 })).toEqual(["--concurrency 64"]);
    const free = { concurrency: true, gradientCheckpointing: false, microBatchTokens: false };
    const machine = { host: { total: 100e9, available: room(64).host }, gpu: null };
    const fitted = (wanted: PlanInput) => fitToMachine(wanted, free, machine, () => undefined);
    expect(fitted(many)).toMatchObject({ concurrency: 64, lanes: 64 });
    expect(fitted({ ...many, concurrency: 96 })).toMatchObject({ concurrency: 64, lanes: 64 });
    expect(fitted({ ...many, lanesGiven: false }).lanes).toBeLessThan(64);
  });
});

it("two lanes of a card are one where their memory is missing, before anything else is changed", () => {
  const wanted: PlanInput = { ...input, gpu: "cuda", context: 2048, concurrency: 64, lanes: 2 };
  const on = (lanes: number) => {
    const available = planMemory({ ...wanted, lanes }).gpu?.peak as number;
    const machine = { host: { total: 100e9, available: 100e9 }, gpu: { name: "Card", total: 80e9, available } };
    const free = { concurrency: true, gradientCheckpointing: true, microBatchTokens: false };
    return fitToMachine(wanted, free, machine, () => undefined);
  };
  expect([on(2), on(1)]).toMatchObject([
    { lanes: 2, concurrency: 64, gradientCheckpointing: false },
    { lanes: 1, concurrency: 64, gradientCheckpointing: false },
  ]);
});

describe("what was asked for beyond the defaults of an engine", () => {
  const wanted: PlanInput = { ...input, gpu: "cuda", context: 2048, concurrency: 64 };
  const free = { concurrency: true, gradientCheckpointing: true, microBatchTokens: false };
  const on = (bytes: number, more: Partial<PlanInput>) => {
    const machine = { host: { total: 64e9, available: 64e9 }, gpu: { name: "Card", total: bytes, available: bytes } };
    return () => fitToMachine({ ...wanted, ...more }, free, machine, () => undefined);
  };
  const lanes = (lanes: number) => ({ lanes, lanesGiven: true });

  it("is withdrawn before a smaller model is advised, and the run then fits", () => {
    expect(on(6e9, {})()).toMatchObject({ lanes: 1 });
    expect(on(6e9, lanes(8))).toThrow(/; these make it fit: --lanes 2$/);
    expect(on(6e9, lanes(2))()).toMatchObject({ lanes: 2 });
    expect(on(8e9, asked)).toThrow(/; these make it fit: --lanes 4$/);
    expect(on(12e9, asked)).toThrow(/; these make it fit: --lanes 8$/);
    expect(on(8e9, { ...asked, ...lanes(4) })()).toMatchObject({ lanes: 4, ubatch: 2048, sampling: "device" });
  });

  it("is each the one change where that is enough", () => {
    const room = (change: Partial<PlanInput>): Room => ({
      host: 64e9,
      gpu: planMemory({ ...wanted, ...change }).gpu?.peak ?? 0,
    });
    const checked = { gradientCheckpointing: true };
    for (const [more, withdrawn, flag] of [
      [lanes(8), lanes(4), "--lanes 4"],
      [{ ubatch: 1500 }, { ubatch: 512 }, "--ubatch 512"],
      [{ sampling: "device" }, { sampling: "host" }, "--sampling host"],
    ] as const) {
      expect(waysToFit({ ...wanted, ...checked, ...more }, room({ ...checked, ...withdrawn }))).toEqual([flag]);
    }
  });

  it("comes on top of four other options, and fewer lanes need fewer rollouts at once", () => {
    expect(waysToFit({ ...wanted, ...asked, ...lanes(64) }, { host: 64e9, gpu: 3.88e9 })).toEqual([
      "--lanes 1",
      "--gradient-checkpointing",
      "--concurrency 32",
      "--release-weights",
      "--learner-lifetime offload",
    ]);
  });
});
