import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type GatherOptions, gather } from "../../src/core/gather/gather.js";
import { RolloutThreads } from "../../src/core/gather/threads.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { ids, options, taskFile } from "./support/moody.js";

/** Of tests that leave nothing behind on it: a thread takes a second to load. */
const threads = new RolloutThreads();
afterAll(() => threads.close());
/** With limits that a busy machine does not come to, since rollouts of some moods wait for others. */
function patient(moods: string[], more: Partial<GatherOptions> = {}): GatherOptions {
  const { settings, ...asked } = options(moods, more);
  const limits = { ...settings.limits, turnSeconds: 120, toolSeconds: 120, rolloutSeconds: 240 };
  return { ...asked, settings: { ...settings, limits } };
}
/** On that thread, which is made for as many rollouts as any of these tests has under way. */
const onOne = (moods: string[], more: Partial<GatherOptions> = {}) =>
  gather(patient(moods, { threads, concurrency: 8, ...more }));

describe("gather", () => {
  it("plays every rollout of every group and keeps their order", async () => {
    const heard: string[] = [];
    const onTrajectory = ({ id }: Trajectory) => heard.push(id);
    const result = await gather(patient(["a", "b", "c"], { workers: 2, onTrajectory }));
    expect(ids(result.groups)).toEqual([
      ["0-a/0", "0-a/1"],
      ["1-b/0", "1-b/1"],
      ["2-c/0", "2-c/1"],
    ]);
    expect(heard).toHaveLength(6);
    expect(result).toMatchObject({ failures: [], interrupted: false });
    expect(result.groups[0]?.[0]).toMatchObject({ end: "answered", task: "moody", player: { kind: "expert" } });
  });

  it("ends where its threads cannot start, and says why", async () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-gather-"));
    const file = join(folder, "worker.mjs");
    writeFileSync(file, 'throw new Error("a file of hone is missing");');
    const broken = new RolloutThreads(file);
    const played = gather(patient(["a"], { threads: broken, maxExceptions: 2 })).finally(() => broken.close());
    const { failures } = await played;
    expect(failures.map(({ error }) => error)).toEqual(Array(2).fill("a file of hone is missing"));
  });

  it("has as many rollouts under way as were asked for, also on one thread", async () => {
    const { groups } = await onOne(["meet", "meet", "meet", "meet"]);
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(8).fill("answered"));
  });

  it("lets the next group begin before the last of a group has ended", async () => {
    const { groups } = await onOne(["relay", "relay"], { concurrency: 2 });
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(4).fill("answered"));
  });

  it("never has more rollouts under way than were asked for, though groups are larger", async () => {
    const { groups } = await onOne(["crowd", "crowd", "crowd"], { concurrency: 3, groupSize: 4 });
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(12).fill("answered"));
  });

  it("gives each rollout its own seed, the same one every time", async () => {
    const seeds = async (step: number) =>
      (await onOne(["a", "b"], { step })).groups.flat().map((trajectory) => trajectory.seed);
    const first = await seeds(0);
    expect(new Set(first).size).toBe(4);
    expect(await seeds(0)).toEqual(first);
    expect(await seeds(1)).not.toEqual(first);
  });

  it("does not play again what was played before", async () => {
    const before = (await onOne(["a", "b"])).groups;
    const have = [before[0]?.[1], before[1]?.[0], before[1]?.[1]].flatMap((one) => one ?? []);
    const heard: string[] = [];
    const result = await onOne(["a", "b"], { have, onTrajectory: ({ id }) => heard.push(id) });
    expect(heard).toEqual(["0-a/0"]);
    expect(ids(result.groups)).toEqual(ids(before));
    expect(result.groups[1]?.[0]).toBe(before[1]?.[0]);
    const all = await onOne(["a"], { have: before[0] ?? [] });
    expect(all.groups).toEqual([before[0]]);
  });

  it("ends a rollout whose tool fails, by name, and plays on", async () => {
    const { groups } = await onOne(["throw", "a"]);
    expect(groups.flat().map((trajectory) => trajectory.end)).toEqual([
      "tool_failure",
      "tool_failure",
      "answered",
      "answered",
    ]);
    expect(groups[0]?.[0]?.reason).toMatch(/act failed: bad mood/);
  });

  it("tells of a group as soon as none of its rollouts is left, also of remembered and of failed ones, whose messages it keeps", async () => {
    const told: string[] = [];
    const whole = await onOne(["good"]);
    const { groups, failures } = await onOne(["good", "no reward", "good", "good"], {
      // Of all eight, also those that are not played again.
      maxExceptions: 0.25,
      have: whole.groups[0] ?? [],
      concurrency: 2,
      onTrajectory: ({ id }) => told.push(id),
      onGroup: (group) => told.push(`group ${group.map(({ id }) => id).join(" ")}`),
    });
    expect(groups.map(({ length }) => length)).toEqual([2, 0, 2, 2]);
    expect(failures).toEqual([
      { id: "1-no reward/0", error: expect.stringMatching(/^cannot judge \(.*task\.ts:\d+\)$/) },
      { id: "1-no reward/1", error: expect.stringMatching(/^cannot judge \(.*task\.ts:\d+\)$/) },
    ]);
    expect(told[0]).toBe("group 0-good/0 0-good/1");
    expect(told.filter((line) => line.startsWith("group"))).toHaveLength(3);
    // Right after its last rollout, not after everybody's.
    for (const id of ["2-good", "3-good"]) {
      const last = told.findLastIndex((line) => line.startsWith(`${id}/`));
      expect(told[last + 1]).toBe(`group ${id}/0 ${id}/1`);
    }
  });

  it("stops with the first failure when there are more than are borne", async () => {
    await expect(gather(patient(["no reward", "a"], { maxExceptions: 1 }))).rejects.toThrow(
      /2 of 4 rollouts failed \(--max-exceptions 1\); the last, 0-no reward\/\d: cannot judge/,
    );
  });

  it("plays the others of a group again where one of them blocks their thread", async () => {
    const { groups, failures } = await gather(options(["block once"], { maxExceptions: 1, graceSeconds: 2 }));
    expect(failures).toHaveLength(1);
    expect(groups.flat().map(({ end }) => end)).toEqual(["answered"]);
    expect(failures[0]?.id).not.toBe(groups[0]?.[0]?.id);
  });

  it("names the rollout that blocks its thread, with its turn and what it waits for", async () => {
    const result = await gather(options(["block", "a"], { maxExceptions: 2, graceSeconds: 2 }));
    expect(result.failures[0]?.error).toMatch(
      /rollout 0-block\/\d hangs: in turn 1 it has waited \d+ s for the tool act/,
    );
    expect(ids(result.groups)[1]).toEqual(["1-a/0", "1-a/1"]);
  });

  it("keeps what is finished when it is stopped, and stops soon", async () => {
    const controller = new AbortController();
    const settings = options(["a", "slow", "slow"]).settings;
    const limits = { ...settings.limits, toolSeconds: 600, rolloutSeconds: 600 };
    let finished = 0;
    const result = await gather(
      options(["a", "slow", "slow"], {
        settings: { ...settings, limits },
        signal: controller.signal,
        concurrency: 8,
        onTrajectory: () => {
          if (++finished === 2) controller.abort();
        },
      }),
    );
    // The others' tool takes longer than this test may.
    expect(result.interrupted).toBe(true);
    expect(ids(result.groups)).toEqual([["0-a/0", "0-a/1"], [], []]);
  });

  it("tells what is wrong with a task file in one line, once", async () => {
    const broken = options(["a"]);
    const settings = { ...broken.settings, task: `${taskFile}x` };
    await expect(gather({ ...broken, settings })).rejects.toThrow(
      /there is no task file .*task\.tsx; give the path of one/,
    );
  });

  it("has nothing to do without scenarios", async () => {
    expect(await gather(options([]))).toMatchObject({ groups: [], failures: [] });
  });
});
