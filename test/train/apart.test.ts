import { describe, expect, it } from "vitest";
import { usableCores } from "../../src/engine/threads.js";
import { checkAwake, checkStaleness, dividedCores, sharesCard } from "../../src/trainer/apart.js";

const config = { engineUrl: undefined, learnerDevice: undefined };

describe("engine and learner at the same time", () => {
  it("is refused on one card, with what would do", () => {
    const refused = () => checkStaleness({ settings: { staleness: 1 }, apart: false });
    expect(refused).toThrow(/^--staleness 1: .* on one card\.\nGive the learner another with --learner-device/);
    expect(() => checkStaleness({ settings: { staleness: 0 }, apart: false })).not.toThrow();
    expect(() => checkStaleness({ settings: { staleness: 1 }, apart: true })).not.toThrow();
  });

  it("shares a card unless the engine is elsewhere, or the learner on the CPU", () => {
    expect(sharesCard(config, { kind: "cuda" })).toBe(true);
    expect(sharesCard(config, { kind: "vulkan" })).toBe(false);
    expect(sharesCard(config, null)).toBe(false);
    expect(sharesCard({ ...config, learnerDevice: "cpu" }, { kind: "cuda" })).toBe(false);
    expect(sharesCard({ ...config, engineUrl: ["http://127.0.0.1:8000"] }, { kind: "cuda" })).toBe(false);
  });

  it("refuses options that hand memory from one to the other", () => {
    expect(() => checkAwake({ releaseWeights: true })).toThrow("--release-weights");
    expect(() => checkAwake({ learnerLifetime: "offload" })).toThrow("--learner-lifetime offload");
    expect(() => checkAwake({ releaseWeights: false, learnerLifetime: "step" })).not.toThrow();
  });

  it("divides a CPU's cores where both compute on it, and nothing else", () => {
    const cores = usableCores();
    const both = dividedCores({ threads: undefined, engineUrl: undefined }, 1, false);
    expect(both.engine).toBe(Math.max(1, Math.floor(cores / 2)));
    expect(both.learner).toBe(Math.max(1, cores - (both.engine as number)));
    expect(dividedCores({ threads: 1, engineUrl: undefined }, 1, false)).toEqual({
      engine: 1,
      learner: Math.max(1, cores - 1),
    });
    // The learner computes all the same where the engine has every core.
    expect(dividedCores({ threads: cores, engineUrl: undefined }, 1, false)).toEqual({ engine: cores, learner: 1 });
    expect(dividedCores({ threads: undefined, engineUrl: undefined }, 0, false).engine).toBeUndefined();
    expect(dividedCores({ threads: undefined, engineUrl: undefined }, 1, true).engine).toBeUndefined();
  });
});
