/** What the page says of a group: whether its step learnt of it, and if not, why. */
import { describe, expect, it } from "vitest";
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { creditedAdvantage, groupState } from "../../web/src/credit.js";

const member = (more: Partial<Row>): Row =>
  ({ phase: "train", step: 1, end: "answered", brokenOff: false, turns: 2, tokens: 9, reward: 1, ...more }) as Row;
const untaught = (more: Partial<Row> = {}) => member({ trained: null, advantage: null, ...more });
const taught = [member({ trained: 1, advantage: 0.5 }), member({ trained: 0, advantage: -0.5, reward: 0 })];

const view = (metrics: object): RunView =>
  ({
    steps: [{ step: 1, metrics: { skipped: null, groups_no_verdict: {}, groups_flat: 0, ...metrics } }],
  }) as unknown as RunView;

describe("a group with advantages", () => {
  it("taught, where its step was not skipped", () => {
    expect(groupState(taught, view({}))).toBeNull();
    expect(creditedAdvantage(taught[0] as Row, view({}))).toBe(0.5);
  });

  it.each([
    ["loss", "the loss was not a finite number"],
    ["gradient", "the gradient was not a finite number"],
  ])("taught nothing in a step that was skipped for its %s", (skipped, why) => {
    expect(groupState(taught, view({ skipped }))).toEqual({ name: "step skipped", why });
    expect(creditedAdvantage(taught[0] as Row, view({ skipped }))).toBeNull();
  });
});

describe("a group without a reward", () => {
  const lost = { groups_no_verdict: { timeout: 2 } };
  const why = (rows: readonly Row[], metrics: object) => groupState(rows, view(metrics))?.why;
  const late = "the judge did not answer in time";

  it("of which too few could be compared is not given the judge's reasons for other groups", () => {
    const broken = untaught({ end: "deadline", brokenOff: true });
    expect(why([broken, broken, untaught()], lost)).toBe("too few of its rollouts could be compared");
  });

  it("is given them where two could be compared, also after a deadline that was the model's own", () => {
    expect(why([untaught({ end: "deadline" }), untaught({ tokens: 7 })], lost)).toBe(late);
  });

  it("that was played once needs only that one", () => {
    expect(why([untaught()], lost)).toBe(late);
  });

  it("may also be one whose rollouts are alike, which no judge was asked about", () => {
    const rows = [untaught(), untaught()];
    expect(why(rows, { groups_flat: 1 })).toBe("all its rollouts are alike");
    expect(why(rows, { ...lost, groups_flat: 1 })).toBe(`${late}, or all its rollouts are alike`);
    expect(why([untaught(), untaught({ turns: 3 })], { ...lost, groups_flat: 1 })).toBe(late);
  });
});
