/** What kill-ahead.full.test.ts tries at some moments of a run, at all of them. */
import { it } from "vitest";
import { beforeKilling, killAtMoments } from "./support/killing.js";

const whole = beforeKilling(1);

it("goes on to the same state, whenever it was killed, and repeats no saved rollout", () => killAtMoments(whole, 1));
