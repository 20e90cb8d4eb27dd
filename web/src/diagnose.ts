/** Findings about a step, in words: why it changed nothing, how its rollouts ended, which metrics are unusual. */
import type { RunView } from "../../src/insight/view/wire.js";
import { counts, mean, number, percent, words } from "./format.js";
import { errorRate, type Usual, usualOf } from "./usual.js";

export interface Finding {
  /** bad: the step contributed nothing, or less than it should. odd: unusual. note: information. */
  readonly level: "bad" | "odd" | "note";
  readonly text: string;
}

type Step = RunView["steps"][number];
type Metrics = NonNullable<Step["metrics"]>;

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

function learning(metrics: Metrics): Finding[] {
  const { groups, groups_flat: flat, groups_no_verdict: noVerdict, groups_unrewarded: unrewarded } = metrics;
  const found: Finding[] = [];
  if (metrics.skipped) {
    found.push({
      level: "bad",
      text: `The step changed nothing: ${SKIPPED[metrics.skipped] ?? words(metrics.skipped)}.`,
    });
  }
  if (metrics.updates > 0 && metrics.groups_trainable === 0) {
    found.push({ level: "bad", text: "In every group all rewards were equal: the update is the pull of --kl alone." });
  }
  for (const [reason, n] of Object.entries(noVerdict)) {
    const level = unrewarded * 2 >= groups ? "bad" : "odd";
    found.push({ level, text: `${n} of ${groups} groups got no reward: ${noVerdictText(reason)} (${reason}).` });
  }
  if (flat > 0 && flat * 2 >= groups && metrics.skipped !== "no_spread") {
    found.push({
      level: "odd",
      text: `${flat} of ${groups} groups had no spread: their rollouts got equal rewards and taught nothing.`,
    });
  } else if (flat > 0) found.push({ level: "note", text: `${flat} of ${groups} groups had no spread.` });
  if (metrics.groups_masked > 0) {
    found.push({
      level: "odd",
      text: `In ${metrics.groups_masked} of ${groups} groups all that differed was ended by a limit and masked.`,
    });
  }
  if (metrics.groups_broken_off > 0) {
    found.push({
      level: "odd",
      text: `${metrics.groups_broken_off} of ${groups} groups were left with fewer than two rollouts.`,
    });
  }
  return found;
}

const sumOf = (of: Readonly<Record<string, number>>) => Object.values(of).reduce((sum, value) => sum + value, 0);

function playing(metrics: Metrics): Finding[] {
  const { rollouts, ends, tool_errors: errors, broken_off: broken } = metrics;
  const found: Finding[] = [];
  const [end, n] = Object.entries(ends).sort(([, a], [, b]) => b - a)[0] ?? ["", 0];
  if (rollouts > 0 && metrics.success === 0) {
    found.push({
      level: "bad",
      text: `None of ${rollouts} rollouts solved its scenario; ${n} ended by ${words(end)}.`,
    });
  } else if (end !== "answered" && n * 2 >= rollouts && rollouts > 0) {
    found.push({ level: "odd", text: `${n} of ${rollouts} rollouts ended by ${words(end)}.` });
  }
  const calls = sumOf(errors);
  if (calls > 0) {
    found.push({
      level: calls >= rollouts ? "odd" : "note",
      text: `${calls} calls in ${rollouts} rollouts did not run: ${counts(errors)}.`,
    });
  }
  if (metrics.rollouts_broken_off > 0) {
    found.push({
      level: "odd",
      text: `${metrics.rollouts_broken_off} rollouts were ended by no fault of the model and not trained: ${counts(broken)}.`,
    });
  }
  if (metrics.failures > 0)
    found.push({ level: "odd", text: `${metrics.failures} rollouts broke down by a fault of a tool or the task.` });
  return found;
}

/** Metrics that differ strongly from those of the other steps. */
function against(step: Step, usual: Usual): Finding[] {
  const metrics = step.metrics as Metrics;
  if (usual.trained.length < 5) return [];
  const found: Finding[] = [];
  const far = (name: string, value: number | null | undefined, median: number, meaning: string) => {
    if (typeof value !== "number" || !(median > 0) || value < TIMES * median) return;
    found.push({
      level: "odd",
      text: `${name} is ${number(value)}, ${number(value / median)} times its median of ${number(median)}: ${meaning}.`,
    });
  };
  const { grad_norm: norm, mismatch } = metrics;
  const total = step.timing?.seconds.total;
  far("The gradient's norm", norm, usual.gradient.medianWithout(norm), "a large update");
  far(
    "The mismatch of engine and learner",
    mismatch?.mean,
    usual.mismatch.medianWithout(mismatch?.mean),
    "what was played was not quite the policy that learnt",
  );
  far("The time", total, usual.seconds.medianWithout(total), `most went to ${slowest(step)}`);
  const rate = errorRate(metrics);
  const usualRate = usual.errorRate.medianWithout(rate);
  if (rate >= 1 && rate >= 2 * usualRate) {
    found.push({
      level: "bad",
      text: `${number(rate)} calls a rollout did not run (${counts(metrics.tool_errors)}); the median of the other steps is ${number(usualRate)}.`,
    });
  }
  const place = usual.placeOf.get(step.step) ?? 0;
  const before = usual.trained.slice(Math.max(0, place - 5), place);
  const success = mean(before.map(({ metrics }) => metrics.success));
  const { success_low: low, success_high: high } = metrics;
  if (before.length >= 3 && high !== null && high < success) {
    found.push({
      level: "odd",
      text: `Success fell to ${percent(metrics.success)} (95 %: ${percent(low)} to ${percent(high)}) from a mean of ${percent(success)} in the ${before.length} steps before.`,
    });
  }
  const start = usual.entropy;
  if (start && metrics.entropy !== null && metrics.entropy < start / 10) {
    found.push({
      level: "odd",
      text: `Entropy is ${number(metrics.entropy)}, below a tenth of the first step's ${number(start)}: the policy hardly tries anything else.`,
    });
  }
  return found;
}

function slowest({ timing }: Step): string {
  const { total: _, ...phases } = timing?.seconds ?? {};
  const [name, value] = Object.entries(phases).sort(([, a], [, b]) => b - a)[0] ?? ["", 0];
  return `${words(name)}, ${number(value)} s`;
}

const ORDER = { bad: 0, odd: 1, note: 2 };

/** Cached by list of steps: the page is redrawn at every poll of a running run, mostly with the same steps. */
const known = new WeakMap<RunView["steps"], { readonly usual: Usual; readonly of: Map<number, Finding[]> }>();

/** Findings about a committed step, the worst first. */
export function findingsOf(step: Step, { steps }: RunView): Finding[] {
  const cache = known.get(steps) ?? { usual: usualOf(steps), of: new Map<number, Finding[]>() };
  known.set(steps, cache);
  const findings = cache.of.get(step.step) ?? findIn(step, cache.usual);
  cache.of.set(step.step, findings);
  return findings;
}

function findIn(step: Step, usual: Usual): Finding[] {
  if (!step.metrics) return [];
  const found = [...learning(step.metrics), ...playing(step.metrics), ...against(step, usual)];
  if (step.timing && step.timing.reused > 0) {
    found.push({
      level: "note",
      text: `${step.timing.reused} rollouts were taken over from an attempt that was broken off.`,
    });
  }
  return found.sort((a, b) => ORDER[a.level] - ORDER[b.level]);
}

export interface Problem {
  readonly run: number;
  /** null: about the whole run. */
  readonly step: number | null;
  readonly finding: Finding;
}

/** Number of rollouts of a step that was started and is not committed. */
export function unfinishedStep(view: RunView): { step: number; n: number } | null {
  const last = view.steps.at(-1)?.step ?? 0;
  const open = view.counts.find(({ phase, step }) => phase === "train" && step > last);
  return open ? { step: open.step, n: open.n } : null;
}

/** Problems of a run, the most important first. */
export function problemsOf(view: RunView): Problem[] {
  const of = (step: number | null, level: Finding["level"], text: string): Problem => ({
    run: view.id,
    step,
    finding: { level, text },
  });
  if (view.problem !== null) return [of(null, "bad", view.problem)];
  const problems: Problem[] = [];
  if (view.steps.length <= 1 && view.counts.length === 0) problems.push(of(null, "note", "No step is committed yet."));
  const open = unfinishedStep(view);
  if (open && !view.running) {
    problems.push(
      of(
        open.step,
        "bad",
        `Step ${open.step} was begun and not finished: ${open.n} of its rollouts are kept, and no process is training the run. Training it again goes on with it.`,
      ),
    );
  } else if (open)
    problems.push(of(open.step, "note", `Step ${open.step} is being played: ${open.n} rollouts so far.`));
  for (const { damage } of view.checkpoints) if (damage !== null) problems.push(of(null, "bad", damage));
  for (const step of view.steps) {
    const [worst] = findingsOf(step, view).filter(({ level }) => level === "bad");
    if (worst) problems.push({ run: view.id, step: step.step, finding: worst });
  }
  return problems;
}
