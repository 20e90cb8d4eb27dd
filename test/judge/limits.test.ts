import { describe, expect, it } from "vitest";
import { Limits } from "../../src/judge/limits.js";
import { never, sleepersClock } from "./support/judging.js";

describe("requests at once", () => {
  it("wait for a request to leave, without looking again and again", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 2 }, clock);
    const [first, second] = [await limits.enter(never), await limits.enter(never)];
    const entered: string[] = [];
    const gaveUp = new AbortController();
    const impatient = limits.enter(gaveUp.signal).then(() => entered.push("impatient"));
    const third = limits.enter(never).then(() => entered.push("third"));
    const fourth = limits.enter(never).then(() => entered.push("fourth"));
    gaveUp.abort(new Error("no more"));
    await expect(impatient).rejects.toThrow("no more");
    expect(entered).toEqual([]);
    first();
    await third;
    expect(entered).toEqual(["third"]);
    second();
    await fourth;
    expect(clock.time).toBe(0);
  });

  it("pause for everybody, and whoever gives up holds up nobody", async () => {
    const clock = sleepersClock();
    const limits = new Limits({ concurrency: 1 }, clock);
    limits.pause(7000);
    // A shorter one does not end it early.
    limits.pause(1000);
    await expect(limits.enter(AbortSignal.abort(new Error("no more")))).rejects.toThrow("no more");
    (await limits.enter(never))();
    expect(clock.time).toBe(7000);
  });
});
