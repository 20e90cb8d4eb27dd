/** The time limits of agents, while servers of the engine are away. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TimeLimit } from "../../src/agent/time-limit.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const over = new Error("over");

/** Servers that are counted as away once a second, as the owner of vLLM servers does. */
function servers() {
  let away: number | undefined;
  let milliseconds = 0;
  setInterval(() => {
    if (away === undefined) return;
    milliseconds += performance.now() - away;
    away = performance.now();
  }, 1000);
  return {
    outage: { milliseconds: () => milliseconds, lasts: () => away !== undefined },
    go: () => {
      away = performance.now();
    },
    return: () => {
      away = undefined;
    },
  };
}

it("a limit is over when its time has passed, and not once the work has ended", () => {
  const { outage } = servers();
  const [one, other] = [new TimeLimit(10, outage, () => over), new TimeLimit(10, outage, () => over)];
  other.clear();
  vi.advanceTimersByTime(9999);
  expect(one.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(one.signal.reason).toBe(over);
  expect(other.signal.aborted).toBe(false);
});

it("time without any server does not count, also beyond the limit", () => {
  const { outage, ...both } = servers();
  const limit = new TimeLimit(10, outage, () => over);
  vi.advanceTimersByTime(4000);
  both.go();
  vi.advanceTimersByTime(60_000);
  expect(limit.signal.aborted).toBe(false);
  both.return();
  // 4 of 10 seconds are over.
  vi.advanceTimersByTime(5500);
  expect(limit.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1000);
  expect(limit.signal.aborted).toBe(true);
});

it("what was away before does not count either way", () => {
  const { outage, ...both } = servers();
  both.go();
  vi.advanceTimersByTime(30_000);
  both.return();
  const limit = new TimeLimit(10, outage, () => over);
  vi.advanceTimersByTime(10_000);
  expect(limit.signal.aborted).toBe(true);
});
