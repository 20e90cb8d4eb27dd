/** What stands out in a step beside the others of its run. */
import { describe, expect, it } from "vitest";
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { findingsOf } from "../../web/src/diagnose.js";
import { stepsText } from "../../web/src/format.js";
import { problemsOf } from "../../web/src/problems.js";
import { usualOf } from "../../web/src/usual.js";

type Step = RunView["steps"][number];

/** A step in which nothing stands out but its gradient. */
const stepOf = (step: number, metrics: object) =>
  ({
    step,
    timing: null,
    metrics: {
      groups: 1,
      groups_flat: 0,
      groups_no_verdict: {},
      groups_unrewarded: 0,
      groups_masked: 0,
      groups_broken_off: 0,
      rollouts: 8,
      ends: { answered: 8 },
      tool_errors: {},
      broken_off: {},
      rollouts_broken_off: 0,
      failures: 0,
      skipped: null,
      success: 0.5,
      entropy: 1,
      mismatch: null,
      grad_norm: 1,
      ...metrics,
    },
  }) as unknown as Step;

const viewOf = (steps: Step[]) => ({ steps, options: {} }) as unknown as RunView;

describe("a step beside the others", () => {
  it("is odd where a figure is five times the median of the others, its own left out", () => {
    const view = viewOf([1, 1.5, 2, 4, 10].map((grad_norm, i) => stepOf(i + 1, { grad_norm })));
    const found = view.steps.map((step) => findingsOf(step, view).map(({ text }) => text));
    // With its own the median is 2. 4 is 2.29 times 1.75.
    expect(found).toEqual([
      [],
      [],
      [],
      [],
      ["The gradient's norm is 10, 5.71 times its median of 1.75: a large update."],
    ]);
  });

  it("is bad where rewards taught nothing and --kl alone made the update", () => {
    const view = viewOf([
      stepOf(1, { updates: 1, groups_trainable: 1 }),
      stepOf(2, { updates: 1, groups_trainable: 0 }),
    ]);
    expect(view.steps.map((step) => findingsOf(step, view))).toEqual([
      [],
      [
        {
          kind: "kl",
          level: "bad",
          text: "In every group all rewards were equal: the update is the pull of --kl alone.",
        },
      ],
    ]);
  });

  it("is odd where success fell below the mean of the steps before by more than its interval over questions", () => {
    const steps = (high: number) =>
      [0.5, 0.5, 0.5, 0.5, 0.2].map((success, i) => stepOf(i + 1, { success, success_low: 0.1, success_high: high }));
    const last = (high: number) => findingsOf(steps(high)[4] as Step, viewOf(steps(high))).map(({ text }) => text);
    expect(last(0.4)).toEqual([expect.stringMatching(/^Success fell to 20.0 % \(95 %: 10.0 % to 40.0 %\)/)]);
    expect(last(0.6)).toEqual([]);
  });

  it("reads each step a few times, however many there are, and none again while the list is the same", () => {
    const n = 300;
    let reads = 0;
    const steps = Array.from({ length: n }, (_, i) => stepOf(i + 1, {}));
    for (const { metrics } of steps) {
      Object.defineProperty(metrics, "grad_norm", {
        get: () => {
          reads++;
          return 1;
        },
      });
    }
    const view = viewOf(steps);
    for (const step of steps) findingsOf(step, view);
    expect(reads).toBeLessThanOrEqual(4 * n);
    const before = reads;
    for (const step of steps) findingsOf(step, { ...view });
    expect(reads).toBe(before);
  });
});

describe("steps with the same trouble", () => {
  const unsolved = { success: 0, skipped: "no_spread", updates: 0, groups_trainable: 0, groups_flat: 1 };
  const run = (steps: Step[], more: object = {}) =>
    ({
      id: 0,
      name: "mine",
      problem: null,
      program: "hone",
      home: "",
      running: false,
      counts: [],
      checkpoints: [],
      steps,
      options: { model: "tiny", maxTurns: 10, learningRate: 1e-3 },
      given: { steps: " --steps 3" },
      ...more,
    }) as unknown as RunView;
  const row = (step: number, failed: Row["failed"]) => ({ id: step, phase: "train", step, failed }) as unknown as Row;
  const failing = { tool_errors: { unknown_tool: 2, malformed: 1 } };

  it("are told together, with the commonest failing call, the commonest end, and what to type", () => {
    const steps = [1, 2, 3].map((step) => stepOf(step, { ...unsolved, ...failing }));
    const rows: Row["failed"] = [
      ["search", "unknown_tool"],
      ["search", "unknown_tool"],
      ["", "malformed"],
    ];
    const [problem, ...others] = problemsOf(
      run(steps),
      steps.map(({ step }) => row(step, rows)),
    );
    expect(others).toEqual([]);
    expect(problem).toMatchObject({
      steps: [1, 2, 3],
      text: "None of 24 rollouts solved its scenario, and all rewards were equal: nothing was learnt.",
      cause: "Most often failed: search, no such tool (6 of 9). 24 of 24 rollouts answered.",
    });
    expect(problem?.next).toEqual([
      "hone rollout --expert --split train --n 160 --group-size 1 --out played.jsonl",
      "hone sft played.jsonl --out imitated",
      "hone train --steps 3 --fork imitated --run mine-imitated",
    ]);
  });

  it("name the task with its options and tools, and the weights, the format and the adapter that are imitated", () => {
    const given = {
      ...{ task: " --task mine.ts", set: " --set level=2", mcp: " --mcp tools.json", mcpDeny: " --mcp-deny rm" },
      ...{ model: " --model m", weights: " --weights bf16", loraRank: " --lora-rank 4" },
    };
    const options = { model: "m", maxTurns: 10, learningRate: 1e-3 };
    const view = run([stepOf(1, unsolved)], { options, given: { ...given, toolFormat: " --tool-format json" } });
    const [problem] = problemsOf(view);
    expect(problem?.next?.slice(0, 2)).toEqual([
      "hone rollout --task mine.ts --set level=2 --mcp tools.json --mcp-deny rm --player-url URL --player-model NAME --split train --n 160 --group-size 1 --out played.jsonl",
      "hone sft played.jsonl --task mine.ts --mcp tools.json --mcp-deny rm --model m --weights bf16 --tool-format json --lora-rank 4 --out imitated",
    ]);
  });

  it("of a fork are trained again from where it began, and the run itself without that", () => {
    const view = run([stepOf(1, { ...unsolved, success: 0.5 })], {
      given: { fork: " --fork run/checkpoints/0000" },
      counts: [{ phase: "train", step: 2, n: 3 }],
    });
    expect(problemsOf(view).map(({ next }) => next)).toEqual([
      ["hone train --run mine"],
      ["hone train --fork run/checkpoints/0000 --difficulty 0.1..0.9 --run mine-mixed"],
    ]);
  });

  it("say that no rollout was finished, where all of them failed, and that the task is checked next", () => {
    const failed = { ...unsolved, rollouts: 0, ends: {}, failures: 8, updates: 0 };
    const [problem, ...others] = problemsOf(run([stepOf(1, failed)], { given: { task: " --task mine.ts" } }));
    expect(others).toEqual([]);
    expect(problem).toMatchObject({
      level: "bad",
      text: "8 rollouts broke down by a fault of a tool or the task. None was finished, and nothing was learnt.",
      next: ["hone check --task mine.ts"],
    });
  });

  it("that ran into a limit are played again with twice as much of it", () => {
    const steps = [stepOf(1, { ...unsolved, ends: { turn_limit: 7, answered: 1 } })];
    expect(problemsOf(run(steps))).toMatchObject([
      {
        cause: "7 of 8 rollouts ran into the turn limit.",
        next: ["hone train --steps 3 --max-turns 20 --run mine-longer"],
      },
    ]);
  });

  it("name a lower rate where the loss was not finite, and the rollouts where a program gives the reward", () => {
    const lost = [stepOf(1, { skipped: "loss", updates: 0 })];
    expect(problemsOf(run(lost))[0]?.next).toEqual([
      "hone train --steps 3 --learning-rate 0.0001 --final-learning-rate 0.0001 --run mine-slower",
    ]);
    expect(problemsOf(run(lost, { options: { reward: "program" } }))[0]?.next).toEqual([
      "hone rollouts mine --step 1 --failed --show",
    ]);
    expect(problemsOf(run(lost, { home: " --home /runs", options: { reward: "program" } }))[0]?.next).toEqual([
      "hone rollouts mine --home /runs --step 1 --failed --show",
    ]);
  });

  it("stand out less where another reward trained, and the task's own solved nothing", () => {
    const steps = [stepOf(1, { success: 0, reward: 0, training_reward: 0.713, updates: 1, groups_trainable: 1 })];
    const text = "None of 8 rollouts solved its scenario.";
    expect(problemsOf(run(steps, { options: { reward: "ruler" } }))).toMatchObject([{ level: "odd", text }]);
    // The task's own trains, of which fewer rollouts were trained on than played.
    expect(problemsOf(run([...steps]))).toMatchObject([{ level: "bad", text }]);
  });

  it.each([
    [[4], "step 4"],
    [[1, 2, 3], "steps 1 to 3"],
    [[1, 2, 3, 7, 9], "steps 1 to 3, 7 and 9"],
    [[1, 3, 5, 7, 9, 10], "steps 1, 3, 5 and 3 more"],
  ])("%j are %s", (steps, text) => expect(stepsText(steps)).toBe(text));
});

it.each([[[3]], [[3, 1]], [[2, 2, 2, 7]], [[5, 1, 4, 1, 9, 2, 6]], [[8, 1, null, 6, 3, 5]]])(
  "finds the median of the others in %j",
  (norms) => {
    const { gradient } = usualOf(norms.map((grad_norm, i) => stepOf(i, { grad_norm })));
    const medianOf = (all: (number | null)[]) => {
      const sorted = all.filter((one) => one !== null).sort((a, b) => a - b);
      return ((sorted[(sorted.length - 1) >> 1] ?? Number.NaN) + (sorted[sorted.length >> 1] ?? Number.NaN)) / 2;
    };
    for (const [i, norm] of norms.entries()) {
      expect(gradient.medianWithout(norm)).toBe(medianOf(norms.filter((_, k) => k !== i)));
    }
  },
);
