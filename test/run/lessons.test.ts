import { describe, expect, it } from "vitest";
import { batchOf, lessonsOf, randomReward, taskReward, teach } from "../../src/run/lessons.js";
import { trajectoryOf } from "./support/fakes.js";

const options = { stdScaling: false, stdFloor: 0, spreadFloor: 0 };
const group = [0, 1, 0.5].map((reward, index) => trajectoryOf({ index, reward }));
const flat = [1, 1].map((reward, index) => trajectoryOf({ index, reward }));

describe("a group's lessons", () => {
  it("are its rewards less their mean", async () => {
    const taught = await teach([group, flat], 1, taskReward, options);
    expect(taught.map(({ trainable, rewarded }) => [trainable, rewarded])).toEqual([
      [true, true],
      [false, true],
    ]);
    expect(lessonsOf(taught).map(({ reward, advantage }) => [reward, advantage])).toEqual([
      [0, -0.5],
      [1, 0.5],
      [0.5, 0],
      [1, 0],
      [1, 0],
    ]);
  });

  it("leave groups without spread out of the batch", async () => {
    const batch = batchOf(await teach([group, flat], 1, taskReward, options));
    expect(batch).toHaveLength(1);
    expect(batch[0]?.map(({ advantage }) => advantage)).toEqual([-0.5, 0.5, 0]);
    expect(batch[0]?.[1]?.tokens).toBe(group[1]?.tokens);
  });

  it("are none when the group could not be rewarded", async () => {
    const taught = await teach([group], 1, async () => null, options);
    expect(taught[0]).toMatchObject({ rewarded: false, trainable: false });
    expect(lessonsOf(taught)).toEqual([]);
    expect(batchOf(taught)).toEqual([]);
  });

  it("need tokens", async () => {
    const { tokens: _, ...spoken } = trajectoryOf({ index: 3, reward: 0 });
    const taught = await teach([[...group, spoken]], 1, taskReward, options);
    expect(() => batchOf(taught)).toThrow("s0/3 has no tokens");
  });
});

describe("random rewards", () => {
  it("depend on the place of a rollout and not on what it did", async () => {
    const long = Array.from({ length: 200 }, (_, index) => trajectoryOf({ index, reward: 0 }));
    const other = Array.from({ length: 200 }, (_, index) => trajectoryOf({ index, reward: 1, seed: 9 }));
    const rewards = (await randomReward(1)(long, 5)) as number[];
    expect(await randomReward(1)(other, 5)).toEqual(rewards);
    expect(await randomReward(1)(long, 6)).not.toEqual(rewards);
    expect(await randomReward(2)(long, 5)).not.toEqual(rewards);
    const heads = rewards.filter((reward) => reward === 1).length;
    expect(heads).toBeGreaterThan(70);
    expect(heads).toBeLessThan(130);
  });
});
