/** The options that a plan names where a run does not fit. */
import { describe, expect, it } from "vitest";
import { fitToMachine } from "../../src/machine/plan/fit.js";
import type { PlanInput } from "../../src/machine/plan/input.js";
import { planMemory } from "../../src/machine/plan/memory.js";
import { fits, type Room, waysToFit } from "../../src/machine/plan/remedies.js";
import { input, judge } from "./support.js";

const hostPeak = (change: Partial<PlanInput> = {}) => planMemory({ ...input, ...change }).host.peak;

describe("what makes a run fit", () => {
  const OPTIONS: Record<string, (value: string | undefined) => Partial<PlanInput>> = {
    "--gradient-checkpointing": () => ({ gradientCheckpointing: true }),
    "--release-weights": () => ({ releaseWeights: true }),
    "--learner-lifetime": (value) => ({ learnerLifetime: value as PlanInput["learnerLifetime"] }),
    "--micro-batch-tokens": (value) => ({ microBatchTokens: Number(value) }),
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
        for (const more of [{}, { judge }]) {
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
