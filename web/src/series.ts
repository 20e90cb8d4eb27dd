/** The charts and their lines, computed from a run. */
import { studentT } from "../../src/core/run/interval.js";
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { isTrainedByOther } from "./diagnose.js";
import { gigabytes, mean, number, percent, seconds } from "./format.js";

export interface Point {
  readonly step: number;
  readonly value: number | null;
  readonly low?: number | null;
  readonly high?: number | null;
}

export interface Line {
  readonly name: string;
  readonly points: readonly Point[];
  /** Distinguishes the lines of one run; the colour is the run's. */
  readonly dash?: readonly number[];
  /** Drawn as separate points, for example validations. */
  readonly dots?: boolean;
  /** Left out when several runs are shown: a component of another line. */
  readonly part?: boolean;
  /** Left out where it is 0 in every step. */
  readonly rare?: boolean;
  /** Index of the colour when a single run is shown. */
  readonly tone?: number;
}

export interface ChartSpec {
  readonly id: string;
  readonly title: string;
  /** Its group under "Diagnostics"; without it the chart is on top. */
  readonly group?: "learning" | "tokens" | "time" | "memory";
  /** What did not happen where it has no values; without it "No update was made". */
  readonly missing?: string;
  /** Description of the chart and of its bands. */
  readonly about: string;
  readonly format: (value: number | null | undefined) => string;
  readonly lines: (view: RunView, rows: readonly Row[]) => Line[];
  /** Lower end of the scale. */
  readonly from?: number;
  readonly to?: number;
}

type Metrics = NonNullable<RunView["steps"][number]["metrics"]>;

const trained = (view: RunView) =>
  view.steps.flatMap((step) => (step.metrics ? [{ ...step, metrics: step.metrics }] : []));

/** A validation all of whose rollouts failed has no figures. */
const validated = (view: RunView) => view.validations.filter(({ result }) => result.n > 0);

const ofMetrics = (view: RunView, value: (metrics: Metrics) => number | null | undefined): Point[] =>
  trained(view).map(({ step, metrics }) => ({ step, value: value(metrics) ?? null }));

/** Groups of a step whose figures have an interval: that of two is nearly the whole scale. */
const FEWEST = 3;

/**
 * Mean reward of a step with the 95 % interval of the mean over its groups, since rollouts of one scenario are not
 * independent.
 */
function rewards(view: RunView, rows: readonly Row[], which: "reward" | "trained"): Point[] {
  const means = new Map<number, Map<string, number[]>>();
  for (const { phase, step, scenario, [which]: reward } of rows) {
    if (phase !== "train" || reward === null) continue;
    const groups = means.get(step) ?? new Map<string, number[]>();
    means.set(step, groups);
    const group = groups.get(scenario) ?? [];
    groups.set(scenario, group);
    group.push(reward);
  }
  return trained(view).map(({ step, metrics }) => {
    const all = which === "reward" ? metrics.reward : metrics.training_reward;
    const value = metrics.rollouts === 0 ? null : all;
    const groups = [...(means.get(step)?.values() ?? [])].map(mean);
    if (groups.length < FEWEST || value === null) return { step, value };
    const middle = mean(groups);
    const deviation = Math.sqrt(groups.reduce((sum, one) => sum + (one - middle) ** 2, 0) / (groups.length - 1));
    const reach = (studentT(groups.length - 1) * deviation) / Math.sqrt(groups.length);
    return { step, value, low: value - reach, high: value + reach };
  });
}

const phases = (view: RunView): string[] =>
  [...new Set(view.steps.flatMap(({ timing }) => Object.keys(timing?.seconds ?? {})))].filter(
    (name) => name !== "total",
  );

const share = (part: number, whole: number) => (whole > 0 ? part / whole : null);

export const charts: readonly ChartSpec[] = [
  {
    id: "success",
    title: "Success",
    about:
      "Share of rollouts that solved their scenario, with its 95 % interval over scenarios (cluster-robust). Dots: held-out scenarios (Wilson).",
    format: percent,
    from: 0,
    to: 1,
    lines: (view) => [
      {
        name: "train",
        tone: 0,
        points: trained(view).map(({ step, metrics }) => ({
          step,
          ...(metrics.rollouts === 0
            ? { value: null }
            : {
                value: metrics.success,
                ...(metrics.groups < FEWEST ? {} : { low: metrics.success_low, high: metrics.success_high }),
              }),
        })),
      },
      {
        name: "held out",
        dots: true,
        tone: 1,
        points: validated(view).map(({ step, result }) => ({
          step,
          value: result.success,
          low: result.low,
          high: result.high,
        })),
      },
    ],
  },
  {
    id: "reward",
    title: "Reward",
    about:
      "Mean over rollouts of the reward that trained, with its 95 % interval over groups (Student's t). Dashed: the task's own, where another trained. Dots: held out.",
    format: number,
    lines: (view, rows) => {
      const other = isTrainedByOther(view);
      return [
        {
          name: other ? "reward that trained" : "train",
          tone: 0,
          points: rewards(view, rows, other ? "trained" : "reward"),
        },
        ...(other ? [{ name: "task's own", tone: 2, dash: [6, 4], points: ofMetrics(view, (one) => one.reward) }] : []),
        {
          name: other ? "held out, task's own" : "held out",
          dots: true,
          tone: 1,
          points: validated(view).map(({ step, result }) => ({ step, value: result.reward })),
        },
      ];
    },
  },
  {
    id: "groups",
    group: "learning",
    missing: "No group was played",
    title: "Groups",
    about: "Shares of a step's groups: trainable, without spread (equal rewards teach nothing), without a reward.",
    format: percent,
    from: 0,
    to: 1,
    lines: (view) => [
      { name: "trainable", tone: 0, points: ofMetrics(view, (one) => share(one.groups_trainable, one.groups)) },
      {
        name: "no spread",
        tone: 1,
        rare: true,
        dash: [6, 4],
        points: ofMetrics(view, (one) => share(one.groups_flat, one.groups)),
      },
      {
        name: "no reward",
        tone: 3,
        rare: true,
        dash: [2, 4],
        points: ofMetrics(view, (one) => share(one.groups_unrewarded, one.groups)),
      },
    ],
  },
  {
    id: "spread",
    group: "learning",
    missing: "No group got a reward",
    title: "Spread of rewards",
    about: "Standard deviation of the training reward within a group, mean over the groups that have a reward.",
    format: number,
    from: 0,
    lines: (view) => [{ name: "spread", points: ofMetrics(view, (one) => one.reward_spread) }],
  },
  {
    id: "loss",
    group: "learning",
    title: "Loss",
    about: "The objective's value, mean over the step's updates. Near 0 by construction; its trend says little.",
    format: number,
    lines: (view) => [{ name: "loss", points: ofMetrics(view, (one) => one.loss) }],
  },
  {
    id: "entropy",
    group: "learning",
    missing: "The engine measured no entropy",
    title: "Entropy",
    about:
      "Of the policy, nats a token: estimated over all rollouts; dashed, exact over those that trained. Near 0 it tries nothing else any more.",
    format: number,
    from: 0,
    lines: (view) => [
      { name: "all rollouts", tone: 0, points: ofMetrics(view, (one) => one.entropy) },
      { name: "trained", tone: 1, dash: [6, 4], points: ofMetrics(view, (one) => one.entropy_trained) },
    ],
  },
  {
    id: "mismatch",
    group: "learning",
    title: "Mismatch",
    about:
      "Engine and learner on the tokens that trained: mean distance of log-probabilities, and KL estimate (k3, dashed), nats a token.",
    format: number,
    from: 0,
    lines: (view) => [
      { name: "distance", tone: 0, points: ofMetrics(view, (one) => one.mismatch?.mean) },
      { name: "KL", tone: 1, dash: [6, 4], points: ofMetrics(view, (one) => one.mismatch_kl) },
    ],
  },
  {
    id: "policy",
    group: "learning",
    title: "Change of the policy",
    about:
      "KL divergence on one rollout of the step, nats a token: of the policy from the base model, and from what its update made of it (dashed).",
    format: number,
    from: 0,
    lines: (view) => [
      { name: "from the base", tone: 0, points: ofMetrics(view, (one) => one.probe_kl?.base) },
      { name: "by the update", tone: 1, dash: [6, 4], points: ofMetrics(view, (one) => one.probe_kl?.update) },
    ],
  },
  {
    id: "gradient",
    group: "learning",
    title: "Gradient norm",
    about: "Before it is scaled down to --max-grad-norm.",
    format: number,
    from: 0,
    lines: (view) => [{ name: "norm", points: ofMetrics(view, (one) => one.grad_norm) }],
  },
  {
    id: "tokens",
    group: "tokens",
    missing: "No token was written",
    title: "Tokens written",
    about: "By the policy in one rollout, mean.",
    format: number,
    from: 0,
    lines: (view) => [{ name: "tokens", points: ofMetrics(view, (one) => one.completion_tokens) }],
  },
  {
    id: "turns",
    group: "tokens",
    missing: "No turn was played",
    title: "Turns",
    about: "Of the assistant in one rollout, mean.",
    format: number,
    from: 0,
    lines: (view) => [{ name: "turns", points: ofMetrics(view, (one) => one.turns) }],
  },
  {
    id: "errors",
    group: "tokens",
    missing: "No call failed",
    title: "Calls that did not run",
    about: "For each rollout: malformed, unknown tool, wrong arguments, refused by the tool.",
    format: number,
    from: 0,
    lines: (view) => {
      const names = [...new Set(trained(view).flatMap(({ metrics }) => Object.keys(metrics.tool_errors)))].sort();
      const dashes = [[], [6, 4], [2, 4], [8, 3, 2, 3]];
      return names.map((name, tone) => ({
        name: name.replaceAll("_", " "),
        tone,
        dash: dashes[tone % 4] as number[],
        points: ofMetrics(view, (one) => share(one.tool_errors[name] ?? 0, one.rollouts)),
      }));
    },
  },
  {
    id: "time",
    group: "time",
    missing: "No step was timed",
    title: "Seconds a step",
    about: "The whole step, and where its time went (for one run alone).",
    format: seconds,
    from: 0,
    lines: (view) => [
      {
        name: "total",
        tone: 0,
        points: view.steps.flatMap(({ step, timing }) =>
          timing ? [{ step, value: timing.seconds.total ?? null }] : [],
        ),
      },
      ...phases(view).map((name, i) => ({
        name,
        part: true,
        tone: i + 1,
        dash: [
          [6, 4],
          [2, 4],
          [8, 3, 2, 3],
          [1, 2],
        ][i % 4] as number[],
        points: view.steps.flatMap(({ step, timing }) =>
          timing ? [{ step, value: timing.seconds[name] ?? null }] : [],
        ),
      })),
    ],
  },
  {
    id: "memory",
    group: "memory",
    title: "Learner's memory",
    about: "The most it had at once in a step.",
    format: gigabytes,
    from: 0,
    lines: (view) => [
      {
        name: "peak",
        points: view.steps.flatMap(({ step, timing }) =>
          timing ? [{ step, value: timing.memory?.peak ?? null }] : [],
        ),
      },
    ],
  },
  {
    id: "rate",
    group: "learning",
    missing: "No learning rate was set",
    title: "Learning rate",
    about: "Of the step's update.",
    format: number,
    from: 0,
    lines: (view) => [{ name: "rate", points: ofMetrics(view, (one) => one.learning_rate) }],
  },
  {
    id: "clipped",
    group: "learning",
    title: "Clipped",
    about:
      "Share of sampled tokens on which a bound of the policy ratio acted, and on which the lower or upper one did.",
    format: percent,
    from: 0,
    lines: (view) => [
      { name: "clipped", tone: 0, points: ofMetrics(view, (one) => one.clip_fraction) },
      {
        name: "below",
        part: true,
        rare: true,
        tone: 1,
        dash: [6, 4],
        points: ofMetrics(view, (one) => one.clip_below),
      },
      {
        name: "above",
        part: true,
        rare: true,
        tone: 2,
        dash: [2, 4],
        points: ofMetrics(view, (one) => one.clip_above),
      },
    ],
  },
];

/** Fewer intervals than this are drawn as error bars: a band would fill the chart. */
export const FEW = 6;

/** Where one of n error bars at a step stands, in pixels from it: beside each other, and near it however many they are. */
export const besideStep = (i: number, n: number): number => Math.min(4, 24 / n) * (i - (n - 1) / 2);

interface Seen {
  readonly view: RunView;
  readonly rows: readonly Row[];
}

/** The lines that have values. */
export const drawable = (spec: ChartSpec, { view, rows }: Seen): Line[] =>
  spec
    .lines(view, rows)
    .filter(({ points }) => points.some(({ value }) => value !== null))
    .filter(({ points, rare }) => !rare || points.some(({ value }) => value));

/** Whether it has anything to draw of these runs. */
export const hasValues = (spec: ChartSpec, runs: readonly Seen[]): boolean =>
  runs.some((run) => drawable(spec, run).length > 0);

/** Whether a line has the values of another wherever it has any: it would hide it. */
export function coincides({ points }: Line, other: Line): boolean {
  const values = new Map(other.points.map(({ step, value }) => [step, value]));
  return points.every(({ step, value }) => value === null || values.get(step) === value);
}

/**
 * Exponential moving average: each value has the weight 1 − weight, all before it the rest; corrected for the start.
 */
export function smooth(points: readonly Point[], weight: number): (number | null)[] {
  let sum = 0;
  let mass = 0;
  return points.map(({ value }) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}
