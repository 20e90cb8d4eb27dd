/** A run that is killed at any moment goes on to the very state of a run that was never interrupted. */
import { describe, expect, it } from "vitest";
import { beforeKilling, killAtMoments } from "./support/killing.js";

describe("a killed run", () => {
  const whole = beforeKilling();

  it("is compared with one that did everything there is to do", () => {
    expect(whole.state.validations).toHaveLength(3);
    expect(whole.state.metrics).toHaveLength(2);
    expect(whole.moments.filter((name) => name === "learner ends")).toHaveLength(2);
    expect(new Set(whole.state.steps.map((row) => (row as { adapter: string }).adapter)).size).toBe(3);
  });

  // kill.long.test.ts goes through all of them.
  it("goes on to the same state, killed at every fifth moment, and repeats no saved rollout", async () => {
    await killAtMoments(whole, 5);
  });
});
