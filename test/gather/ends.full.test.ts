/** Threads that end, or that their task's code breaks: what was played stays, and the run goes on or says why not. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { gather } from "../../src/core/gather/gather.js";
import { ids, options } from "./support/moody.js";

describe("gather", () => {
  it("plays a group again whose worker died of another's fault", async () => {
    const result = await gather(options(["exit", "a", "b", "c"], { maxExceptions: 2, concurrency: 8 }));
    expect(result.failures.map((failure) => failure.id)).toEqual(["0-exit/0", "0-exit/1"]);
    expect(ids(result.groups).slice(1)).toEqual([
      ["1-a/0", "1-a/1"],
      ["2-b/0", "2-b/1"],
      ["3-c/0", "3-c/1"],
    ]);
  });

  it("ends with the error of a listener, such as a full disk", async () => {
    const full = new Error("database or disk is full");
    const fail = () => {
      throw full;
    };
    await expect(gather(options(["a", "b"], { onTrajectory: fail }))).rejects.toBe(full);
    await expect(gather(options(["a", "b"], { onGroup: fail }))).rejects.toBe(full);
    await expect(gather(options(["no reward", "a"], { onFailure: fail, maxExceptions: 9 }))).rejects.toBe(full);
    // Its worker dies twice: this failure is noticed outside of any message.
    await expect(gather(options(["exit"], { onFailure: fail, maxExceptions: 9 }))).rejects.toBe(full);
  });

  it("ends when a thread cannot open the task's environment, or never comes to it", async () => {
    const other = (open: string, seconds: number) => {
      const file = join(mkdtempSync(join(tmpdir(), "hone-gather-")), "task.ts");
      writeFileSync(
        file,
        `import { defineTask } from "hone";
        export default defineTask({
          name: "shut", scenarios: () => [], prompt: () => [], reward: () => ({ reward: 1, success: true, parts: {} }),
          open: ${open},
        });`,
      );
      const { settings, ...rest } = options(["a", "b", "c"], { graceSeconds: 1 });
      return gather({
        ...rest,
        settings: { ...settings, task: file, limits: { ...settings.limits, taskSeconds: seconds } },
      });
    };
    // Reading the file is in the time too, and takes longer where it was not compiled before.
    await expect(other("() => process.exit(0)", 60)).rejects.toThrow(
      /its thread was ended: code of the task calls process\.exit\(0\)/,
    );
    await expect(other("() => new Promise(() => {})", 10)).rejects.toThrow(
      "open of the task shut did not end within 10 s; --task-timeout allows more",
    );
    await expect(other("() => { for (;;); }", 10)).rejects.toThrow(
      /^the task's file and its environment are not there after \d+ s \(--task-timeout 10\)$/,
    );
  });

  it("ends a rollout whose prompt never ends", async () => {
    const result = await gather(options(["endless prompt", "a"], { graceSeconds: 1, maxExceptions: 2 }));
    expect(result.failures[0]?.error).toMatch(/hangs: before its first turn it has waited \d+ s for the task's prompt/);
    expect(ids(result.groups)).toEqual([[], ["1-a/0", "1-a/1"]]);
  });
});
