import { describe, expect, it } from "vitest";
import { Limits } from "../../src/judge/limits.js";
import { never, sleepersClock } from "./support/judging.js";

describe("requests in a minute", () => {
  it("are never more than allowed in any 60 seconds", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 99, requestsPerMinute: 5, tokensPerMinute: undefined }, clock);
    const at: number[] = [];
    for (let i = 0; i < 23; i++) {
      (await limits.enter(10, never)).leave();
      at.push(clock.time);
      clock.time += i % 3 === 0 ? 4000 : 100;
    }
    for (const [i, start] of at.entries()) {
      expect(at.filter((time, j) => j >= i && time - start < 60_000).length).toBeLessThanOrEqual(5);
    }
    expect(clock.time).toBeLessThan(5 * 60_000);
  });

  it("and tokens are counted as billed, not as estimated", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 99, requestsPerMinute: undefined, tokensPerMinute: 1000 }, clock);
    const first = await limits.enter(900, never);
    first.billed(100);
    first.leave();
    (await limits.enter(900, never)).leave();
    expect(clock.time).toBe(0);
    (await limits.enter(50, never)).leave();
    expect(clock.time).toBe(60_000);
  });

  it("let a request in that alone is larger than the limit", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 1, requestsPerMinute: undefined, tokensPerMinute: 10 }, clock);
    (await limits.enter(500, never)).leave();
    expect(clock.time).toBe(0);
  });

  it("waits for a request to leave, without looking again and again", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 2, requestsPerMinute: undefined, tokensPerMinute: undefined }, clock);
    const [first, second] = [await limits.enter(1, never), await limits.enter(1, never)];
    const entered: string[] = [];
    const gaveUp = new AbortController();
    const impatient = limits.enter(1, gaveUp.signal).then(() => entered.push("impatient"));
    const third = limits.enter(1, never).then(() => entered.push("third"));
    const fourth = limits.enter(1, never).then(() => entered.push("fourth"));
    gaveUp.abort(new Error("no more"));
    await expect(impatient).rejects.toThrow("no more");
    expect(entered).toEqual([]);
    first.leave();
    await third;
    expect(entered).toEqual(["third"]);
    second.leave();
    await fourth;
    expect(clock.time).toBe(0);
  });

  it("pause for everybody, and whoever gives up holds up nobody", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 1, requestsPerMinute: undefined, tokensPerMinute: undefined }, clock);
    limits.pause(7000);
    await expect(limits.enter(1, AbortSignal.abort(new Error("no more")))).rejects.toThrow("no more");
    (await limits.enter(1, never)).leave();
    expect(clock.time).toBe(7000);
  });
});
