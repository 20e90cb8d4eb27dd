/** As kill.test.ts, of a run whose steps are played ahead: some may be committed that the engine has not loaded yet. */
import { expect, it } from "vitest";
import { beforeKilling, killAtMoments } from "./support/killing.js";

const whole = beforeKilling(1);

// kill-ahead.long.test.ts goes through all of them.
it("goes on to the same state, killed at every 17th moment, and repeats no saved rollout", async () => {
  expect(whole.state.metrics).toHaveLength(3);
  await killAtMoments(whole, 17);
});
