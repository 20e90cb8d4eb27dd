import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type CpuSample, govern, nextPace, othersCores, sampleCpu } from "../../src/engine/governor.js";

/** Threads after each interval, from what others used of `cores` in it. */
function paces(cores: number, chosen: number, others: readonly number[]): number[] {
  let pace = { threads: chosen, roomy: 0 };
  return others.map((used) => {
    pace = nextPace(pace, cores - used, chosen);
    return pace.threads;
  });
}

describe("the number of threads", () => {
  it("falls in the first interval in which another program holds a core", () => {
    expect(paces(2, 2, [0, 0.02, 1, 1])).toEqual([2, 2, 1, 1]);
  });

  it("falls too when the other program gets only its share of the core it fights for", () => {
    expect(paces(2, 2, [0.5])).toEqual([1]);
    expect(paces(2, 2, [0.67])).toEqual([1]);
  });

  it("comes back after three intervals with room, one after the other", () => {
    expect(paces(2, 2, [1, 0, 0, 0, 0])).toEqual([1, 1, 1, 2, 2]);
    expect(paces(2, 2, [1, 0, 0, 1, 0, 0, 0])).toEqual([1, 1, 1, 1, 1, 1, 2]);
  });

  it("bears with a little work of others", () => {
    expect(paces(2, 2, [0.3, 0.35, 0.2])).toEqual([2, 2, 2]);
    expect(paces(2, 2, [1, 0.3, 0.3, 0.3])).toEqual([1, 1, 1, 2]);
  });

  it("does not flap when others come and go every second", () => {
    expect(paces(2, 2, [1, 0, 1, 0, 1, 0])).toEqual([1, 1, 1, 1, 1, 1]);
  });

  it("stays between one and the chosen number", () => {
    expect(paces(2, 2, [2, 2.4])).toEqual([1, 1]);
    expect(paces(8, 7, [0, 1, 2, 4.4, 9])).toEqual([7, 7, 6, 3, 1]);
    expect(paces(8, 7, [4, 2, 2, 2])).toEqual([4, 4, 4, 6]);
  });
});

describe("what others use", () => {
  const sample = (at: number, busy: number, own: number): CpuSample => ({ at, busy, own });

  it("is the busy time of all cores less this process's own", () => {
    expect(othersCores(sample(0, 500, 100), sample(1000, 2400, 1000))).toBe(1);
    expect(othersCores(sample(0, 0, 0), sample(500, 1000, 1000))).toBe(0);
  });

  it("is never negative: the system counts in ticks, the process in microseconds", () => {
    expect(othersCores(sample(0, 0, 0), sample(1000, 990, 1003))).toBe(0);
  });

  it("is measured by counters that grow as this process computes", () => {
    const from = sampleCpu();
    const { user } = process.cpuUsage();
    while (process.cpuUsage().user - user < 100_000);
    const to = sampleCpu();
    expect(to.own - from.own).toBeGreaterThanOrEqual(100);
    // The system counts in ticks of 10 ms.
    expect(to.busy - from.busy).toBeGreaterThan(50);
  });

  it("leaves out programs of a lower priority, unless this process has one itself", () => {
    const cores = [{ times: { user: 100, nice: 7000, sys: 20, idle: 0, irq: 3 } }];
    expect(sampleCpu(0, cores).busy).toBe(123);
    expect(sampleCpu(10, cores).busy).toBe(7123);
  });
});

describe("the governor", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Two cores, and an engine whose threads and idleness, like what others use, the test decides. */
  function governed() {
    const world = { others: 0, running: 4, waitingSeconds: 0, sampled: 0 };
    const set: number[] = [];
    const said: string[] = [];
    let now: CpuSample = { at: 0, busy: 0, own: 0 };
    const sample = () => {
      world.sampled++;
      const at = performance.now();
      const elapsed = at - now.at;
      const busy = now.busy + elapsed * (0.9 + world.others);
      now = { at, busy, own: now.own + elapsed * 0.9 };
      return now;
    };
    const engine = {
      stats: () => ({ sequences: { running: world.running }, seconds: { waiting: world.waitingSeconds } }) as never,
      setThreads: (threads: number) => void set.push(threads),
    };
    const governor = govern(engine, { threads: 2, cores: 2 }, (line) => said.push(line), sample);
    return { world, set, said, governor, seconds: (count: number) => vi.advanceTimersByTime(1000 * count) };
  }

  it("gives way, takes back, and tells it once", () => {
    const { world, set, said, seconds } = governed();
    seconds(3);
    expect(set).toEqual([]);
    world.others = 1;
    seconds(20);
    expect(set).toEqual([1]);
    world.others = 0;
    seconds(20);
    expect(set).toEqual([1, 2]);
    world.others = 1;
    seconds(20);
    expect(set).toEqual([1, 2, 1]);
    expect(said).toEqual(["other programs use the cores too: decoding with 1 of 2 threads while they do"]);
  });

  it("looks at nothing while the engine is idle, and takes nobody's load then for a reason to give way", () => {
    const { world, set, seconds } = governed();
    world.running = 0;
    world.others = 2;
    seconds(10);
    expect(world.sampled).toBe(0);
    world.running = 4;
    seconds(1);
    world.others = 0;
    seconds(5);
    expect(set).toEqual([]);
  });

  it("passes over an interval in which the engine mostly waited", () => {
    const { world, set, seconds } = governed();
    seconds(2);
    world.others = 1;
    world.waitingSeconds += 0.8;
    seconds(1);
    expect(set).toEqual([]);
    seconds(1);
    expect(set).toEqual([1]);
  });

  it("holds a number of threads whatever others do, and begins anew with all", () => {
    const { world, set, governor, seconds } = governed();
    governor.hold(1);
    seconds(10);
    world.others = 1;
    seconds(10);
    expect(set).toEqual([1]);
    governor.hold(undefined);
    expect(set).toEqual([1, 2]);
    // What others did while it was held is not counted.
    seconds(1);
    expect(set).toEqual([1, 2]);
    seconds(1);
    expect(set).toEqual([1, 2, 1]);
  });

  it("ends with the engine", () => {
    const { world, set, governor, seconds } = governed();
    seconds(2);
    governor.stop();
    world.others = 2;
    seconds(10);
    expect(set).toEqual([]);
  });
});
