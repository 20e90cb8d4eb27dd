import { afterAll, describe, expect, it } from "vitest";
import { gather } from "../../src/gather/gather.js";
import { RolloutThreads } from "../../src/gather/threads.js";
import type { Trajectory } from "../../src/rollout/trajectory.js";
import { ids, options, taskFile } from "./support/moody.js";

/** Of tests that leave nothing behind on them: a thread takes a second to load. */
const threads = new RolloutThreads();
afterAll(() => threads.close());

describe("gather", () => {
  it("tells of a group as soon as none of its rollouts is left, also of failed and of remembered ones", async () => {
    const told: string[] = [];
    const whole = await gather(options(["good", "good"], { threads }));
    const { groups } = await gather(
      options(["good", "no reward", "good", "good"], {
        maxExceptions: 2,
        have: whole.groups[0] ?? [],
        concurrency: 2,
        onTrajectory: ({ id }) => told.push(id),
        onGroup: (group) => told.push(`group ${group.map(({ id }) => id).join(" ")}`),
      }),
    );
    expect(groups.map(({ length }) => length)).toEqual([2, 0, 2, 2]);
    expect(told[0]).toBe("group 0-good/0 0-good/1");
    expect(told.filter((line) => line.startsWith("group"))).toHaveLength(3);
    // Right after its last rollout, not after everybody's.
    for (const id of ["2-good", "3-good"]) {
      const last = told.findLastIndex((line) => line.startsWith(`${id}/`));
      expect(told[last + 1]).toBe(`group ${id}/0 ${id}/1`);
    }
  });

  it("plays every rollout of every group and keeps their order", async () => {
    const heard: string[] = [];
    const onTrajectory = ({ id }: Trajectory) => heard.push(id);
    const result = await gather(options(["a", "b", "c"], { workers: 2, onTrajectory }));
    expect(ids(result.groups)).toEqual([
      ["0-a/0", "0-a/1"],
      ["1-b/0", "1-b/1"],
      ["2-c/0", "2-c/1"],
    ]);
    expect(heard).toHaveLength(6);
    expect(result).toMatchObject({ failures: [], interrupted: false });
    expect(result.groups[0]?.[0]).toMatchObject({ end: "answered", task: "moody", player: { kind: "expert" } });
  });

  it("has as many rollouts under way as were asked for, also on one thread", async () => {
    const { groups } = await gather(options(["meet", "meet", "meet", "meet"], { concurrency: 8 }));
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(8).fill("answered"));
  });

  it("lets the next group begin before the last of a group has ended", async () => {
    const { groups } = await gather(options(["relay", "relay"], { concurrency: 2 }));
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(4).fill("answered"));
  });

  it("never has more rollouts under way than were asked for, though groups are larger", async () => {
    const { groups } = await gather(options(["crowd", "crowd", "crowd"], { concurrency: 3, groupSize: 4 }));
    expect(groups.flat().map(({ end }) => end)).toEqual(Array(12).fill("answered"));
  });

  it("gives each rollout its own seed, the same one every time", async () => {
    const seeds = async (step: number) =>
      (await gather(options(["a", "b"], { step, threads }))).groups.flat().map((trajectory) => trajectory.seed);
    const first = await seeds(0);
    expect(new Set(first).size).toBe(4);
    expect(await seeds(0)).toEqual(first);
    expect(await seeds(1)).not.toEqual(first);
  });

  it("does not play again what was played before", async () => {
    const before = (await gather(options(["a", "b"], { threads }))).groups;
    const have = [before[0]?.[1], before[1]?.[0], before[1]?.[1]].flatMap((one) => one ?? []);
    const heard: string[] = [];
    const result = await gather(options(["a", "b"], { have, threads, onTrajectory: ({ id }) => heard.push(id) }));
    expect(heard).toEqual(["0-a/0"]);
    expect(ids(result.groups)).toEqual(ids(before));
    expect(result.groups[1]?.[0]).toBe(before[1]?.[0]);
    const all = await gather(options(["a"], { have: before[0] ?? [] }));
    expect(all.groups).toEqual([before[0]]);
  });

  it("ends a rollout whose tool fails, by name, and plays on", async () => {
    const { groups } = await gather(options(["throw", "a"], { threads }));
    expect(groups.flat().map((trajectory) => trajectory.end)).toEqual([
      "tool_failure",
      "tool_failure",
      "answered",
      "answered",
    ]);
    expect(groups[0]?.[0]?.reason).toMatch(/act failed: bad mood/);
  });

  it("keeps failures with their message while they are borne", async () => {
    const result = await gather(options(["no reward", "a"], { maxExceptions: 0.5, threads }));
    expect(result.failures).toEqual([
      { id: "0-no reward/0", error: expect.stringMatching(/^cannot judge \(.*task\.ts:\d+\)$/) },
      { id: "0-no reward/1", error: expect.stringMatching(/^cannot judge \(.*task\.ts:\d+\)$/) },
    ]);
    expect(ids(result.groups)).toEqual([[], ["1-a/0", "1-a/1"]]);
  });

  it("stops with the first failure when there are more than are borne", async () => {
    await expect(gather(options(["no reward", "a"], { maxExceptions: 1 }))).rejects.toThrow(
      /2 of 4 rollouts failed \(--max-exceptions 1\); the last, 0-no reward\/\d: cannot judge/,
    );
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
