import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { viewOf } from "../../src/trainer/telling.js";

describe("a program's handlers", () => {
  it("are called with what happens", () => {
    const seen: unknown[] = [];
    const { view } = viewOf({ onPhase: (...phase) => seen.push(phase), log: (line) => seen.push(line) });
    view.phase(1, "rollouts", 8);
    view.log("a line");
    expect(seen).toEqual([[1, "rollouts", 8], "a line"]);
  });

  it("that are async and reject end the run at the next phase", async () => {
    const { view, end } = viewOf({
      onRollout: async () => {
        throw new Error("the disk is full");
      },
    });
    view.rollout(undefined as never);
    await new Promise(setImmediate);
    expect(() => view.phase(1, "update", 1)).toThrow("the disk is full");
    await end();
  });

  it("that have just rejected are told when the run ends, which waits for none that is under way", async () => {
    const { view, end } = viewOf({
      onRollout: () => new Promise(() => undefined) as never,
      onStep: async () => {
        throw new Error("the disk is full");
      },
    });
    view.rollout(undefined as never);
    view.step(undefined as never);
    await expect(end()).rejects.toThrow("the disk is full");
  });

  it("that reject after the run's end are warned of", async () => {
    let reject: (error: Error) => void = () => undefined;
    const onRollout = () => new Promise((_, no) => (reject = no)) as never;
    const { view, end } = viewOf({ onRollout });
    view.rollout(undefined as never);
    await end();
    const warnings: unknown[] = [];
    void once(process, "warning").then((warned) => warnings.push(...warned));
    reject(new Error("the disk is full"));
    await new Promise(setImmediate);
    expect(warnings).toEqual([new Error("the disk is full")]);
  });
});
