import { expect, it } from "vitest";
import type { Row } from "../../src/insight/view/wire.js";
import { byExcess, isJudged } from "../../web/src/order.js";

const row = (id: number, trained: number | null, reward: number) => ({ id, trained, reward }) as Row;

it("rollouts that the judge likes and the task does not come first, those that no judge scored last", () => {
  const rows = [row(1, 0.2, 1), row(2, null, 0), row(3, 0.9, 0), row(4, 0.5, 0), row(5, 0.5, 0), row(6, 1, 1)];
  expect(byExcess(rows).map(({ id }) => id)).toEqual([3, 4, 5, 6, 1, 2]);
  expect(
    ["ruler", "composed", "task", "success", undefined].map((reward) => isJudged({ options: { reward } })),
  ).toEqual([true, true, false, false, false]);
});
