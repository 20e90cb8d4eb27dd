/** Time limits, by a clock that stands still while the thread cannot run; and while servers of an engine are away. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { awakeTime, TimeLimit, Uncounted } from "../../src/core/util/time-limit.js";

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
  const [one, other] = [new TimeLimit(10, () => over), new TimeLimit(10, () => over)];
  other.clear();
  vi.advanceTimersByTime(9999);
  expect(one.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(one.signal.reason).toBe(over);
  expect(other.signal.aborted).toBe(false);
});

it("uncounted work stops the clock from its first part's begin to its last one's end, also where one fails", async () => {
  const uncounted = new Uncounted();
  const limit = new TimeLimit(10, () => over, uncounted);
  const lasting = (seconds: number, fails = false) =>
    uncounted.during(async () => {
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      if (fails) throw new Error("failed");
    });
  await vi.advanceTimersByTimeAsync(4000);
  const parts = Promise.allSettled([lasting(20), lasting(30, true)]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect([limit.signal.aborted, uncounted.lasts()]).toEqual([false, true]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect((await parts).map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(uncounted.milliseconds()).toBeCloseTo(30_000, 3);
  expect(uncounted.lasts()).toBe(false);
  await vi.advanceTimersByTimeAsync(5999);
  expect(limit.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(limit.signal.reason).toBe(over);
});

it("time without any server does not count, also beyond the limit", () => {
  const { outage, ...both } = servers();
  const limit = new TimeLimit(10, () => over, outage);
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
  const limit = new TimeLimit(10, () => over, outage);
  vi.advanceTimersByTime(10_000);
  expect(limit.signal.aborted).toBe(true);
});

it("a sign of progress begins the time anew", () => {
  const limit = new TimeLimit(10, () => over);
  vi.advanceTimersByTime(9000);
  limit.renew();
  vi.advanceTimersByTime(9999);
  expect(limit.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(limit.signal.aborted).toBe(true);
});

it("time in which the process was stopped does not count", () => {
  vi.useRealTimers();
  let now = 1000;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  const before = awakeTime();
  const limit = new TimeLimit(10, () => over);
  now += 190_000;
  // All that is due fires now.
  vi.advanceTimersByTime(500);
  expect(limit.signal.aborted).toBe(false);
  expect(awakeTime() - before).toBeLessThan(1000);
  for (let i = 0; i < 18; i++) {
    now += 500;
    vi.advanceTimersByTime(500);
  }
  expect(limit.signal.aborted).toBe(false);
  now += 500;
  vi.advanceTimersByTime(500);
  expect(limit.signal.aborted).toBe(true);
  vi.restoreAllMocks();
});
