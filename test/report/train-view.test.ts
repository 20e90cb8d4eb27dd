import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { evaluate, shareText } from "../../src/core/run/evaluation.js";
import type { MetricsLine } from "../../src/core/run/records.js";
import { ProgressLine } from "../../src/insight/report/progress-line.js";
import { shownTraining, timeText } from "../../src/insight/report/train-view.js";

/** Collects what is written; a terminal or a file. */
function stream(isTTY: boolean, columns = 120) {
  const written: string[] = [];
  const fake = { isTTY, columns, write: (text: string) => written.push(text) > 0 };
  return { written, line: new ProgressLine(fake as unknown as NodeJS.WriteStream) };
}

function trainingOn(line: ProgressLine, steps: number, judged = false) {
  const { onStart, onPhase, onRollout, onRewarded, onProgress, onStep, onValidation } = shownTraining(line);
  onStart({ steps, judged });
  return {
    phase: onPhase,
    rollout: onRollout,
    rewarded: onRewarded,
    progress: onProgress,
    step: onStep,
    validation: onValidation,
  };
}

const rollout = {
  scenario: {},
  end: "answered",
  reward: { reward: 0.5, success: true },
  calls: [],
  completionTokens: 100,
  promptTokens: 10,
};

const line: MetricsLine = {
  step: 3,
  checkpoint: 3,
  rollouts: 64,
  reward: 0.4321,
  success: 0.25,
  success_low: 0.156,
  success_high: 0.369,
  groups: 8,
  groups_trainable: 5,
  failures: 0,
  completion_tokens: 150,
  version: 2,
  staleness: 0,
  drift: null,
  skipped: null,
  loss: 0.127,
  updates: 1,
  mismatch_kl: 1.8e-7,
  grad_norm: 0.074,
  draws: null,
  checks: 0.02,
  mismatch: { mean: 0.0001, p99: 0.002, max: 0.01 },
  kl_base: null,
  played: null,
  probe: null,
  entropy: 0.4,
  entropy_trained: 0.5,
  clip_fraction: 0,
  clip_below: 0,
  clip_above: 0,
  probe_kl: { base: 0.01, update: 0.001, n: 40 },
  reward_spread: 0.2,
  spread_n: 8,
  importance_truncated: 0,
  importance_masked: 0,
  importance_ess: 1,
  overflows: 0,
  turns: 5,
  parts: {},
  ends: { answered: 64 },
  tool_errors: {},
  agent: {},
  groups_unrewarded: 0,
  learning_rate: 5e-4,
  tokens: 60_000,
  sampled_tokens: 9_600,
  memory: null,
  numerics: "engine cpu F16, learner cpu auto",
  seconds: { rollouts: 8, update: 3.5, validation: 0, swap: 0.02, total: 12 },
  reused: 0,
  training_reward: 0.4321,
  training_n: 64,
  groups_flat: 3,
  groups_masked: 0,
  groups_refilled: 0,
  scenarios_resting: 0,
  rollouts_masked: 0,
  groups_no_verdict: {},
  rollouts_broken_off: 0,
  broken_off: {},
  groups_broken_off: 0,
  judge_agreement: null,
  judge: null,
};

const CLEAR = "\r\u001b[2K";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

describe("the view of training in a log", () => {
  it("prints a row for a step under the table's head, which comes again after 25, with a legend before the first", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 30);
    for (let step = 3; step <= 30; step++) view.step({ ...line, step });
    const head = written[26] as string;
    const legend = (written[0] as string).slice(0, -head.length);
    expect(legend.replaceAll(/\s+/g, " ")).toMatch(/^n: rollouts; groups: .*; mismatch: .*; more: .*help metrics $/);
    expect([written[0]?.slice(legend.length), ...written.slice(1, 3)]).toEqual([
      " step   success, 95 %     n  reward  groups  turns  tokens  mismatch  seconds\n",
      " 3/30   25.0 %  16–37    64   0.432     5/8      5     150    1.0e-4       12\n",
      " 4/30   25.0 %  16–37    64   0.432     5/8      5     150    1.0e-4       12\n",
    ]);
    expect(written.flatMap((text, i) => (text.endsWith(head) ? [i] : []))).toEqual([0, 26]);
  });

  it("keeps every row below 80 columns: large figures, none at all, and thousands of steps", () => {
    const { line: log, written } = stream(false);
    const large = { success: 1, rollouts: 9999, reward: -0.0123, completion_tokens: 123_456, groups: 512 };
    for (const [steps, step] of [
      [99, 99],
      [100, 100],
      [99_999, 12_345],
    ] as const) {
      const view = trainingOn(log, steps);
      view.step({ ...line, ...large, groups_trainable: 512, step, seconds: { total: 12_345.6 } });
      view.step({ ...line, step, success: 0, rollouts: 0, mismatch: null, training_reward: null });
    }
    expect(written.length).toBeGreaterThan(8);
    for (const text of written.flatMap((text) => text.split("\n"))) expect(text.length, text).toBeLessThan(80);
  });

  it("says why a step changed nothing, and what was reused or failed", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    view.step({ ...line, skipped: "no_spread", reused: 7, failures: 2 });
    view.step({ ...line, skipped: "gradient", loss: null, grad_norm: null });
    expect(written[1]).toMatch(
      /12\n {2}nothing to learn: in every group all rewards are equal\n {2}7 rollouts reused\n {2}2 rollouts failed\n$/,
    );
    expect(written[2]).toContain("\n  skipped: the gradient is not a finite number\n");
  });

  it("says how many groups were refilled, what was masked, and what several updates clipped", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    view.step({ ...line, groups_refilled: 2, rollouts_masked: 5 });
    view.step({
      ...line,
      updates: 4,
      clip_fraction: 0.125,
      clip_below: 0.045,
      clip_above: 0.08,
      importance_masked: 0.03,
    });
    view.step({ ...line, skipped: "truncated" });
    view.step({ ...line, overflows: 2 });
    view.step({ ...line, groups_trainable: 0 });
    expect(written[1]).toContain("\n  2 groups refilled\n  5 truncated rollouts masked\n");
    expect(written[2]).toContain(
      "\n  4 updates, 12.5 % of the tokens clipped: 4.5 % below, 8.0 % above\n  3.0 % of the tokens masked by --importance-sampling\n",
    );
    expect(written[3]?.replace("\n    ", " ")).toContain(
      "nothing to learn: all that differs in reward was ended by a limit, and is masked",
    );
    expect(written[4]).toContain("\n  2 passes repeated: f16 overflowed\n");
    expect(written[5]).toContain("\n  in every group all rewards are equal: --kl alone pulled\n");
  });

  it("says how many rollouts were not the model's doing", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    const broken = { rollouts_broken_off: 3, broken_off: { deadline_queue: 1, tool_failure: 2 } };
    view.step({ ...line, ...broken });
    view.step({ ...line, ...broken, groups_broken_off: 2, skipped: "broken_off" });
    const unwrapped = written.map((text) => text.replaceAll(/\n {4}/g, " "));
    expect(unwrapped[1]).toContain(
      "  3 rollouts not trained, their end was not the model's: deadline_queue 1, tool_failure 2\n",
    );
    expect(unwrapped[2]).toContain("nothing to learn: no group has two rollouts to compare");
    expect(unwrapped[2]).toContain("; 2 groups left with fewer than two\n");
    for (const text of written.join("").split("\n")) expect(text.length).toBeLessThan(80);
  });

  it("says what a judge made of a step", () => {
    const { line: log, written } = stream(false);
    const judge = { requests: 9, cached: 2, prompt_tokens: 40_000, completion_tokens: 2000, cost: 0.0528 };
    const lost = { timeout: 1, not_json: 2 };
    const judged = {
      training_reward: 0.7,
      training_n: 40,
      groups_no_verdict: lost,
      groups_flat: 2,
      judge_agreement: 0.9,
    };
    trainingOn(log, 20, true).step({ ...line, ...judged, judge });
    expect(written[1]?.split("\n")).toEqual([
      " 3/20   25.0 %  16–37    64     0.7     5/8      5     150    1.0e-4       12",
      "  independent_reward 0.432 (n=64)",
      "  reward over n=40",
      "  groups without spread: 2",
      "  groups left out: timeout 1, not_json 2",
      "  votes order 90 % of the pairs alike",
      "  judge: 9 requests (2 verdicts remembered), 40,000 + 2,000 tokens, $0.0528",
      "",
    ]);
  });

  it("prints a validation with its interval and n", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    const result = { ...evaluate([], 0), success: 0.45, low: 0.356, high: 0.548, n: 100, reward: 0.5 };
    view.validation({ step: 0, checkpoint: null, result, seconds: 12.34 });
    // Of a fork, which begins with another run's checkpoint.
    view.validation({ step: 0, checkpoint: 0, result, seconds: 12.34 });
    view.validation({ step: 10, checkpoint: 10, result, seconds: 12.34 });
    expect(written).toEqual([
      "untrained model: success 45.0 % (95 %: 35.6 to 54.8, n=100)  reward 0.5  12.3 s\n",
      "starting model: success 45.0 % (95 %: 35.6 to 54.8, n=100)  reward 0.5  12.3 s\n",
      "after step 10: success 45.0 % (95 %: 35.6 to 54.8, n=100)  reward 0.5  12.3 s\n",
    ]);
  });

  it("breaks a validation's line where a terminal of 80 columns would", () => {
    const { line: log, written } = stream(false);
    const result = { ...evaluate([], 0), success: 0.45, low: 0.356, high: 0.548, n: 10_000, reward: 0.5321 };
    const unjudged = { timeout: 11, connection: 12, server_error: 13, rate_limited: 14 };
    const view = trainingOn(log, 20_000);
    view.validation({ step: 12_000, checkpoint: 10, result: { ...result, unjudged }, seconds: 1234 });
    const lines = written.join("").trimEnd().split("\n");
    for (const one of lines) expect(one.length).toBeLessThan(80);
    expect(lines.map((one) => one.trim()).join(" ")).toBe(
      "after step 12000: success 45.0 % (95 %: 35.6 to 54.8, n=10000)  reward 0.532 1,234 s not counted, without a verdict: timeout 11, connection 12, server_error 13, rate_limited 14",
    );
  });

  it("shows no longer what is over", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    view.phase(0, "validation", 1);
    view.rollout(rollout);
    view.validation({ step: 0, checkpoint: null, result: evaluate([], 0), seconds: 1 });
    vi.advanceTimersByTime(20_000);
    expect(written).toEqual([expect.stringMatching(/^untrained model: success/)]);
    // Rollouts that teach nothing have no update.
    view.phase(1, "rollouts", 4);
    view.step({ ...line, step: 1 });
    written.length = 0;
    vi.advanceTimersByTime(10_000);
    expect(written).toEqual([expect.stringMatching(/^█+░+ 1\/20 steps /)]);
    log.clear();
  });

  it("shows progress as a plain line every ten seconds, with no control characters", () => {
    const { line: log, written } = stream(false);
    const view = trainingOn(log, 20);
    view.phase(1, "rollouts", 4);
    expect(written).toEqual([]);
    // Also while no rollout has ended.
    vi.advanceTimersByTime(20_000);
    view.rollout({ ...rollout, reward: { reward: 1 } });
    view.rollout(rollout);
    vi.advanceTimersByTime(10_000);
    expect(written).toEqual([
      "step 1/20 rollouts ░░░░░░░░░░░░░░░░░░░░ 0/4  0:10 < –\n",
      "step 1/20 rollouts ░░░░░░░░░░░░░░░░░░░░ 0/4  0:20 < –\n",
      "step 1/20 rollouts ██████████░░░░░░░░░░ 2/4  0:30 < 0:30  reward 0.75 (n=2)  tokens 100 (n=2)  6.67 tok/s\n",
    ]);
    log.clear();
    vi.advanceTimersByTime(60_000);
    expect(written).toHaveLength(3);
  });
});

describe("the view of training on a terminal", () => {
  it("redraws one line, says which phase runs, and takes the line away", () => {
    const { line: terminal, written } = stream(true);
    const view = trainingOn(terminal, 20);
    vi.advanceTimersByTime(1000);
    view.phase(2, "update", 1);
    vi.advanceTimersByTime(1200);
    view.progress({ phase: "update", done: 1, total: 4 });
    view.progress({ phase: "update", done: 2, total: 4 });
    vi.advanceTimersByTime(1000);
    view.progress({ phase: "saving", done: 0, total: 1 });
    view.step(line);
    terminal.clear();
    vi.advanceTimersByTime(60_000);
    expect(written[0]).toBe(`${CLEAR}step 2/20 update  0:00`);
    // Where nothing is reported it is drawn every second.
    expect(written[1]).toBe(`${CLEAR}step 2/20 update  0:01`);
    // The second came too soon after the first to be drawn at once.
    expect(written[2]).toBe(`${CLEAR}step 2/20 update █████░░░░░░░░░░░░░░░ 1/4  0:01`);
    expect(written[3]).toBe(`${CLEAR}step 2/20 update ██████████░░░░░░░░░░ 2/4  0:02`);
    expect(written[4]).toBe(`${CLEAR}step 2/20 saving ░░░░░░░░░░░░░░░░░░░░ 0/1  0:02`);
    expect(written[5]).toBe(CLEAR);
    expect(written[6]).toMatch(/^n: rollouts; .*\n step {2}/s);
    expect(written[7]).toMatch(/^ 3\/20 .*\n$/);
    expect(written).toHaveLength(8);
  });

  it("after a step draws the run below the phase: how long it takes, its rewards, the last step's time and memory", () => {
    const { line: terminal, written } = stream(true, 80);
    const view = trainingOn(terminal, 4);
    vi.advanceTimersByTime(10_000);
    view.step({ ...line, step: 1, reward: 0.1 });
    vi.advanceTimersByTime(10_000);
    view.step({ ...line, step: 2, reward: 0.8, memory: { peak: 2.5e9, loaded: 1e9 } });
    written.length = 0;
    vi.advanceTimersByTime(1000);
    view.phase(3, "rollouts", 4);
    expect(written).toEqual([
      `${CLEAR}${[
        "step 3/4 rollouts ░░░░░░░░░░░░░░░░░░░░ 0/4  0:00 < –",
        "██████████░░░░░░░░░░ 2/4 steps  0:21 < 0:21  reward ▁█",
        "last step: 8.0 s rollouts, 3.5 s update, 0.5 s other",
        "  1,200 tok/s  loss 0.127  grad 0.074  mismatch 0.0001  learner 2.5 GB",
      ].join("\n")}`,
    ]);
    // Four lines stand there, and four are taken away.
    vi.advanceTimersByTime(500);
    view.rollout(rollout);
    const taken = `${CLEAR}${"\u001b[1A\u001b[2K".repeat(3)}`;
    expect(written[1]?.startsWith(`${taken}step 3/4 rollouts ███`)).toBe(true);
    terminal.clear();
    expect(written[2]).toBe(taken);
    terminal.clear();
    expect(written).toHaveLength(3);
  });

  it.each([
    [100, /reward ▁{23}█$/],
    [80, /reward ▁+█$/],
    // No room for one.
    [60, /[^▁█]$/],
  ])("in %i columns draws the newest rewards, so many as there is room for", (columns, bars) => {
    const { line: terminal, written } = stream(true, columns);
    const view = trainingOn(terminal, 2000);
    for (let step = 901; step < 1000; step++) view.step({ ...line, step, reward: 0.1 });
    vi.advanceTimersByTime(10_000_000);
    view.step({ ...line, step: 1000, reward: 0.9 });
    vi.advanceTimersByTime(1000);
    written.length = 0;
    view.phase(1001, "rollouts", 4);
    const drawn = written[0]?.split("\n")[1] ?? "";
    expect(drawn).toMatch(bars);
    expect(drawn.length).toBeLessThan(columns);
  });

  it("never draws a line that would wrap", () => {
    const { line: terminal, written } = stream(true, 40);
    const view = trainingOn(terminal, 20);
    vi.advanceTimersByTime(1000);
    view.phase(1, "rollouts", 64);
    vi.advanceTimersByTime(1000);
    view.rollout(rollout);
    for (const text of written) expect(text.replace(CLEAR, "").length).toBeLessThan(40);
    expect(written).toHaveLength(2);
  });

  it("under a judge shows its rewards as they come, not the task's own, in the rollouts of training alone", () => {
    const { line: terminal, written } = stream(true);
    const view = trainingOn(terminal, 20, true);
    const shown = (act: () => void) => {
      // A tenth of a second after it was drawn again by itself.
      vi.advanceTimersByTime(1100);
      act();
      return written.at(-1);
    };
    view.phase(1, "rollouts", 4);
    expect(shown(() => view.rollout(rollout))).toContain("1/4  0:01 < 0:03  judged 0/4  reward – (n=0)  tokens");
    view.rollout(rollout);
    expect(shown(() => view.rewarded([1, 2], { kind: "rewarded", rewards: [0.2, 1] }))).toContain(
      "2/4  0:02 < 0:02  judged 2/4  reward 0.6 (n=2)",
    );
    expect(shown(() => view.rewarded([3, 4], { kind: "no_verdict" }))).toContain("judged 4/4  reward 0.6 (n=2)");
    view.phase(1, "validation", 4);
    expect(shown(() => view.rollout(rollout))).toContain("1/4  0:01 < 0:03  reward 0.5 (n=1)");
  });

  it("starts the means of each phase anew", () => {
    const { line: terminal, written } = stream(true);
    const view = trainingOn(terminal, 20);
    view.phase(0, "validation", 2);
    view.rollout(rollout);
    view.phase(1, "rollouts", 4);
    vi.advanceTimersByTime(1000);
    view.rollout({ ...rollout, reward: { reward: 0 } });
    expect(written.at(-1)).toContain("1/4  0:01 < 0:03  reward 0 (n=1)");
  });
});

it("shows a share with its interval and n", () => {
  expect(shareText({ success: 1 / 3, low: 0.0968, high: 0.7, n: 6 })).toBe("33.3 % (95 %: 9.7 to 70.0, n=6)");
});

it("shows the longest phases first, and leaves out what takes no time", () => {
  expect(timeText({ swap: 0.01, update: 2, rollouts: 3.04, total: 5.05 })).toBe("3.0 s rollouts, 2.0 s update");
});
