// Needs a process of its own: a file before it may have started the clock of time limits, with real timers.
/** A device that never ends a batch is noticed, and a slow or idle one is left alone. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { MOST_SECONDS, watchDevice } from "../../src/engine/hang.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LIMIT = 1000 * MOST_SECONDS;

function watched(rounds: () => number[], compiles = () => false) {
  const onHung = vi.fn();
  const stop = watchDevice({ rounds: () => Float64Array.from(rounds()) }, compiles, onHung);
  return { onHung, stop };
}

it("a batch that does not end in one lane is noticed once, though others go on", () => {
  let round = 0;
  const { onHung } = watched(() => [++round, 7]);
  vi.advanceTimersByTime(LIMIT - 10_000);
  expect(onHung).not.toHaveBeenCalled();
  vi.advanceTimersByTime(3 * LIMIT);
  expect(onHung).toHaveBeenCalledTimes(1);
});

it("idle lanes, batches that end late, and a device that compiles are no hang", () => {
  const idle = watched(() => [0, 0]);
  const slow = watched(() => [Math.floor(performance.now() / (LIMIT - 20_000))]);
  const compiling = watched(
    () => [7],
    () => true,
  );
  const closed = watched(() => [7]);
  closed.stop();
  vi.advanceTimersByTime(5 * LIMIT);
  for (const { onHung } of [idle, slow, compiling, closed]) expect(onHung).not.toHaveBeenCalled();
});
