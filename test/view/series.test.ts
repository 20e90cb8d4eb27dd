/** What the charts show. */
import { describe, expect, it } from "vitest";
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { besideStep, charts, coincides, drawable, type Line } from "../../web/src/series.js";

describe("the band of the reward chart", () => {
  it("is the 95 % interval of the mean of few groups", () => {
    const rewards = [0.2, 0.4, 0.9];
    const steps = [{ step: 1, metrics: { reward: 0.5, training_reward: null } }];
    const view = { steps, validations: [], options: {} };
    const rows = rewards.flatMap((reward, group) =>
      [reward - 0.1, reward + 0.1].map((one) => ({ phase: "train", step: 1, scenario: `s-${group}`, reward: one })),
    );
    const chart = charts.find(({ id }) => id === "reward");
    const [line] = chart?.lines(view as unknown as RunView, rows as unknown as Row[]) ?? [];
    // 4.302653 · s/√3, with s = 0.360555: 1.96 in the place of the quantile gives 0.408.
    expect(line?.points[0]?.value).toBe(0.5);
    expect(line?.points[0]?.high).toBeCloseTo(0.5 + 0.895669, 5);
    expect(line?.points[0]?.low).toBeCloseTo(0.5 - 0.895669, 5);
  });
});

describe("the lines of a chart", () => {
  const chart = (id: string) => charts.find((one) => one.id === id) as (typeof charts)[number];
  const steps = (metrics: object[]) => metrics.map((one, i) => ({ step: i + 1, metrics: one }));
  const runOf = (options: object, ...metrics: object[]) =>
    ({ steps: steps(metrics), validations: [], options }) as unknown as RunView;
  const viewOf = (...metrics: object[]) => runOf({}, ...metrics);
  const drawnOf = (id: string, view: RunView) =>
    drawable(chart(id), { view, rows: [] }).map(({ name, points }) => [name, points.map(({ value }) => value)]);

  it("have no success and no reward of a step all of whose rollouts failed", () => {
    const none = { ...viewOf({ reward: 0, success: 0, rollouts: 0 }), validations: [{ step: 0, result: { n: 0 } }] };
    const view = none as unknown as RunView;
    expect([drawnOf("success", view), drawnOf("reward", view)]).toEqual([[], []]);
  });

  it("of success have an interval where a step has three groups: that of two would fill the chart", () => {
    const metrics = { rollouts: 8, success: 0.5, success_low: 0.01, success_high: 0.99 };
    const [line] = chart("success").lines(viewOf({ ...metrics, groups: 2 }, { ...metrics, groups: 3 }), []);
    expect(line?.points.map(({ value, low, high }) => [value, low, high])).toEqual([
      [0.5, undefined, undefined],
      [0.5, 0.01, 0.99],
    ]);
  });

  it("of rewards begin with the one that trained, where it is not the task's", () => {
    const metrics = { reward: 0, training_reward: 0.713 };
    const both = [
      ["reward that trained", [0.713]],
      ["task's own", [0]],
    ];
    expect(drawnOf("reward", runOf({ reward: "ruler" }, metrics))).toEqual(both);
    expect(drawnOf("reward", runOf({ reward: "task", control: "random-reward" }, metrics))).toEqual(both);
  });

  it("of rewards are one where the task's trains, though not all rollouts are trained on", () => {
    const metrics = { rollouts: 8, reward: 0.5, training_n: 6, training_reward: 0.6 };
    expect(drawnOf("reward", runOf({ reward: "task" }, metrics))).toEqual([["train", [0.5]]]);
  });

  it("are left out without values, and those of what never happened", () => {
    const groups = { groups: 4, groups_unrewarded: 0 };
    const view = viewOf(
      { ...groups, groups_trainable: 4, groups_flat: 0 },
      { ...groups, groups_trainable: 1, groups_flat: 3 },
    );
    expect(drawnOf("groups", view)).toEqual([
      ["trainable", [1, 0.25]],
      ["no spread", [0, 0.75]],
    ]);
    expect(drawnOf("loss", viewOf({ loss: null }))).toEqual([]);
  });

  it("coincide where one has the other's values wherever it has any", () => {
    const line = (...values: (number | null)[]): Line => ({
      name: "",
      points: values.map((value, i) => ({ step: i + 1, value })),
    });
    expect(coincides(line(1, null, 3), line(1, 2, 3, 4))).toBe(true);
    expect(coincides(line(1, 2, 4), line(1, 2, 3, 4))).toBe(false);
    expect(coincides(line(1, 2, 3), line(1, 2))).toBe(false);
  });
});

it("error bars at a step stand beside each other, and those of many runs near it", () => {
  expect([0, 1, 2].map((i) => besideStep(i, 3))).toEqual([-4, 0, 4]);
  for (const n of [1, 2, 6, 74]) {
    const places = Array.from({ length: n }, (_, i) => besideStep(i, n));
    expect(Math.max(...places.map(Math.abs))).toBeLessThanOrEqual(12);
    expect(new Set(places).size).toBe(n);
  }
});
