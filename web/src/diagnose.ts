/** Findings about a step, in words: why it changed nothing, how its rollouts ended, which metrics are unusual. */
import type { RunView } from "../../src/insight/view/wire.js";
import { counts, ended, mean, number, percent, ranked, words } from "./format.js";
import { errorRate, type Usual, usualOf } from "./usual.js";

export interface Finding {
  /** Findings of one kind in several steps are told together. */
  readonly kind: string;
  /** bad: the step contributed nothing, or less than it should. odd: unusual. note: information. */
  readonly level: "bad" | "odd" | "note";
  readonly text: string;
  /** The group of charts that shows it. */
  readonly about?: "learning" | "tokens" | "time";
}

export type Step = RunView["steps"][number];
export type Metrics = NonNullable<Step["metrics"]>;

/** Why a step changed nothing. */
export const SKIPPED: Readonly<Record<string, string>> = {
  no_spread: "in every group all rollouts got the same reward, so there was nothing to learn",
  unrewarded: "no group got a reward",
  broken_off: "no group had two rollouts left to compare: the others were ended by no fault of the model",
  truncated: "all that differed in reward was ended by a limit, and --mask-truncated leaves that out",
  loss: "the loss was not a finite number",
  gradient: "the gradient was not a finite number",
};

const REASONS: Readonly<Record<string, string>> = {
  timeout: "the judge did not answer in time",
  connection: "the judge's server could not be reached",
  server_error: "the judge's server had an error",
  rate_limited: "the judge refused for too many requests",
  too_long: "the group was too long for the judge",
  bad_request: "the judge's server refused the question",
};

/** Why a group has no reward. */
export const noVerdictText = (reason: string): string =>
  REASONS[reason] ?? `${words(reason)} (what the judge answered could not be used)`;

/** Factor by which a metric must differ from its usual value to be called odd. */
const TIMES = 5;

export const sumOf = (of: Readonly<Record<string, number>>) => Object.values(of).reduce((sum, value) => sum + value, 0);

/**
 * Whether another reward than the task's own trains; as in src/judge/reward/registry.ts. The means do not tell: rollouts that are
 * not trained on count in the task's own alone.
 */
export const isTrainedByOther = ({ options: { reward = "task", control = "none" } }: Pick<RunView, "options">) =>
  reward !== "task" || control !== "none";

/** What steps with a finding of this kind have in common; undefined where that differs between them. */
export function textOf(kind: string, all: readonly Metrics[]): string | undefined {
  const sum = (value: (metrics: Metrics) => number) => all.reduce((so, metrics) => so + value(metrics), 0);
  const [name, reason = ""] = kind.split(" ");
  const rollouts = sum((one) => one.rollouts);
  if (name === "unsolved") {
    const alike = all.every(({ skipped }) => skipped === "no_spread");
    return `None of ${rollouts} rollouts solved its scenario${alike ? ", and all rewards were equal: nothing was learnt" : ""}.`;
  }
  if (name === "skipped") return `Nothing was learnt: ${SKIPPED[reason] ?? words(reason)}.`;
  if (name === "verdict") {
    const n = sum((one) => one.groups_no_verdict[reason] ?? 0);
    return `${n} of ${sum((one) => one.groups)} groups got no reward: ${noVerdictText(reason)} (${reason}).`;
  }
  if (name === "kl") return "In every group all rewards were equal: the update is the pull of --kl alone.";
  if (name === "calls")
    return `${sum(({ tool_errors }) => sumOf(tool_errors))} calls in ${rollouts} rollouts did not run.`;
  return undefined;
}

function learning(metrics: Metrics, view: RunView): Finding[] {
  const { groups, groups_flat: flat, groups_no_verdict: noVerdict, groups_unrewarded: unrewarded } = metrics;
  const found: Finding[] = [];
  const add = (kind: string, level: Finding["level"], more: Partial<Finding> = {}) =>
    found.push({ kind, level, text: textOf(kind, [metrics]) ?? "", ...more });
  if (metrics.success === 0 && metrics.rollouts > 0) {
    add("unsolved", isTrainedByOther(view) && !metrics.skipped ? "odd" : "bad");
  }
  if (metrics.skipped && !(metrics.skipped === "no_spread" && metrics.success === 0)) {
    const ofUpdate = metrics.skipped === "loss" || metrics.skipped === "gradient";
    add(`skipped ${metrics.skipped}`, "bad", ofUpdate ? { about: "learning" } : {});
  }
  if (metrics.updates > 0 && metrics.groups_trainable === 0) add("kl", "bad");
  for (const reason of Object.keys(noVerdict)) add(`verdict ${reason}`, unrewarded * 2 >= groups ? "bad" : "odd");
  if (flat > 0 && flat * 2 >= groups && metrics.skipped !== "no_spread") {
    const text = `${flat} of ${groups} groups had no spread: their rollouts got equal rewards and taught nothing.`;
    add("flat", "odd", { text });
  } else if (flat > 0 && flat < groups) add("flat", "note", { text: `${flat} of ${groups} groups had no spread.` });
  if (metrics.groups_masked > 0) {
    const text = `In ${metrics.groups_masked} of ${groups} groups all that differed was ended by a limit and masked.`;
    add("masked", "odd", { text });
  }
  if (metrics.groups_broken_off > 0) {
    const text = `${metrics.groups_broken_off} of ${groups} groups were left with fewer than two rollouts.`;
    add("few", "odd", { text });
  }
  return found;
}

function playing(metrics: Metrics): Finding[] {
  const { rollouts, ends, tool_errors: errors, broken_off: broken } = metrics;
  const found: Finding[] = [];
  const [end, n] = ranked(ends)[0] ?? ["answered", 0];
  if (end !== "answered" && n * 2 >= rollouts) {
    found.push({ kind: "ends", level: "odd", text: `${n} of ${rollouts} rollouts ${ended(end)}.` });
  }
  const calls = sumOf(errors);
  if (calls > 0) {
    const text = `${textOf("calls", [metrics])?.slice(0, -1)}: ${counts(errors)}.`;
    found.push({ kind: "some calls", level: calls >= rollouts ? "odd" : "note", text });
  }
  if (metrics.rollouts_broken_off > 0) {
    const text = `${metrics.rollouts_broken_off} rollouts were ended by no fault of the model and not trained: ${counts(broken)}.`;
    found.push({ kind: "broken", level: "odd", text });
  }
  if (metrics.failures > 0) {
    const text = `${metrics.failures} rollouts broke down by a fault of a tool or the task.`;
    found.push(
      rollouts > 0
        ? { kind: "failures", level: "odd", text }
        : { kind: "failures", level: "bad", text: `${text} None was finished, and nothing was learnt.` },
    );
  }
  return found;
}

/** Metrics that differ strongly from those of the other steps. */
function against(step: Step, usual: Usual): Finding[] {
  const metrics = step.metrics as Metrics;
  if (usual.trained.length < 5) return [];
  const found: Finding[] = [];
  const far = (
    about: "learning" | "time",
    name: string,
    value: number | null | undefined,
    median: number,
    meaning: string,
  ) => {
    if (typeof value !== "number" || !(median > 0) || value < TIMES * median) return;
    found.push({
      kind: name,
      level: "odd",
      about,
      text: `${name} is ${number(value)}, ${number(value / median)} times its median of ${number(median)}: ${meaning}.`,
    });
  };
  const { grad_norm: norm, mismatch } = metrics;
  const total = step.timing?.seconds.total;
  far("learning", "The gradient's norm", norm, usual.gradient.medianWithout(norm), "a large update");
  far(
    "learning",
    "The mismatch of engine and learner",
    mismatch?.mean,
    usual.mismatch.medianWithout(mismatch?.mean),
    "what was played was not quite the policy that learnt",
  );
  far("time", "The time", total, usual.seconds.medianWithout(total), `most went to ${slowest(step)}`);
  const rate = errorRate(metrics);
  const usualRate = usual.errorRate.medianWithout(rate);
  if (rate >= 1 && rate >= 2 * usualRate) {
    found.push({
      kind: "calls",
      level: "bad",
      about: "tokens",
      text: `${number(rate)} calls a rollout did not run (${counts(metrics.tool_errors)}); the median of the other steps is ${number(usualRate)}.`,
    });
  }
  const place = usual.placeOf.get(step.step) ?? 0;
  const before = usual.trained.slice(Math.max(0, place - 5), place);
  const success = mean(before.map(({ metrics }) => metrics.success));
  const { success_low: low, success_high: high } = metrics;
  if (before.length >= 3 && high !== null && high < success) {
    found.push({
      kind: "fell",
      level: "odd",
      text: `Success fell to ${percent(metrics.success)} (95 %: ${percent(low)} to ${percent(high)}) from a mean of ${percent(success)} in the ${before.length} steps before.`,
    });
  }
  const start = usual.entropy;
  if (start && metrics.entropy !== null && metrics.entropy < start / 10) {
    found.push({
      kind: "entropy",
      level: "odd",
      about: "learning",
      text: `Entropy is ${number(metrics.entropy)}, below a tenth of the first step's ${number(start)}: the policy hardly tries anything else.`,
    });
  }
  return found;
}

function slowest({ timing }: Step): string {
  const { total: _, ...phases } = timing?.seconds ?? {};
  const [name, value] = ranked(phases)[0] ?? ["", 0];
  return `${words(name)}, ${number(value)} s`;
}

const ORDER = { bad: 0, odd: 1, note: 2 };

/** Cached by list of steps: the page is redrawn at every poll of a running run, mostly with the same steps. */
const known = new WeakMap<RunView["steps"], { readonly usual: Usual; readonly of: Map<number, Finding[]> }>();

/** Findings about a committed step, the worst first. */
export function findingsOf(step: Step, view: RunView): Finding[] {
  const { steps } = view;
  const cache = known.get(steps) ?? { usual: usualOf(steps), of: new Map<number, Finding[]>() };
  known.set(steps, cache);
  const findings = cache.of.get(step.step) ?? findIn(step, cache.usual, view);
  cache.of.set(step.step, findings);
  return findings;
}

function findIn(step: Step, usual: Usual, view: RunView): Finding[] {
  if (!step.metrics) return [];
  const found = [...learning(step.metrics, view), ...playing(step.metrics), ...against(step, usual)];
  if (step.timing && step.timing.reused > 0) {
    found.push({
      kind: "reused",
      level: "note",
      text: `${step.timing.reused} rollouts were taken over from an attempt that was broken off.`,
    });
  }
  return found.sort((a, b) => ORDER[a.level] - ORDER[b.level]);
}
