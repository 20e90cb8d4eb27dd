/** What stands out in a run: steps with the same trouble together, with its cause and what to type next. */
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { type Finding, findingsOf, type Metrics, noVerdictText, type Step, sumOf, textOf } from "./diagnose.js";
import { ended, ranked, refused, tally, total, visible } from "./format.js";

export interface Problem {
  readonly run: number;
  /** Empty: about the whole run. */
  readonly steps: readonly number[];
  readonly level: Finding["level"];
  readonly text: string;
  /** The commonest failing call and the commonest end. */
  readonly cause?: string;
  /** Commands. */
  readonly next?: readonly string[];
}

/** A call that did not run, by name and reason. */
export interface FailedCall {
  /** Empty where the call could not be read. */
  readonly name: string;
  readonly outcome: string;
  readonly n: number;
  readonly rollouts: number;
  readonly steps: readonly number[];
}

/** Those of training, the most frequent first. */
export function failedCalls(rows: readonly Row[]): FailedCall[] {
  const found = new Map<string, { name: string; outcome: string; n: number; rows: Set<number>; steps: Set<number> }>();
  for (const { id, step, phase, failed } of rows) {
    if (phase !== "train") continue;
    for (const [name, outcome] of failed) {
      const key = `${outcome} ${name}`;
      const one = found.get(key) ?? { name, outcome, n: 0, rows: new Set(), steps: new Set() };
      one.n++;
      one.rows.add(id);
      one.steps.add(step);
      found.set(key, one);
    }
  }
  return [...found.values()]
    .map(({ name, outcome, n, rows, steps }) => ({ name, outcome, n, rollouts: rows.size, steps: [...steps] }))
    .sort((a, b) => b.n - a.n);
}

/** "search, no such tool"; or "a call that could not be read". */
export const callText = ({ name, outcome }: Pick<FailedCall, "name" | "outcome">): string =>
  name !== "" ? `${name}, ${refused(outcome)}` : `a call${outcome === "malformed" ? " that" : ","} ${refused(outcome)}`;

/** "search, no such tool: 3; a call that could not be read: 1" */
export const failedText = (rows: readonly Row[]): string =>
  ranked(
    tally(rows.flatMap(({ failed }) => failed.map(([name, outcome]) => callText({ name: visible(name), outcome })))),
  )
    .map(([text, n]) => `${text}: ${n}`)
    .join("; ");

/** Number of rollouts of a step that was started and is not committed. */
export function unfinishedStep(view: RunView): { step: number; n: number } | null {
  const last = view.steps.at(-1)?.step ?? 0;
  const open = view.counts.find(({ phase, step }) => phase === "train" && step > last);
  return open ? { step: open.step, n: open.n } : null;
}

/** "Most often failed: search, no such tool (40 of 47). 31 of 36 rollouts answered." */
function causeOf(kind: string, all: readonly Metrics[], call: FailedCall | undefined): string | undefined {
  if (kind === "skipped unrewarded") {
    const reasons = ranked(total(all.map((one) => one.groups_no_verdict)));
    return reasons.map(([reason, n]) => `${n} groups: ${noVerdictText(reason)} (${reason})`).join("; ");
  }
  if (!["unsolved", "calls", "skipped no_spread", "skipped truncated", "skipped broken_off"].includes(kind))
    return undefined;
  const errors = total(all.map(({ tool_errors }) => tool_errors));
  const [outcome, ofOutcome = 0] = ranked(errors)[0] ?? [];
  const [end, n] = ranked(total(all.map(({ ends }) => ends)))[0] ?? [];
  const [failing, times] = call
    ? [callText({ ...call, name: visible(call.name) }), call.n]
    : [outcome && callText({ name: "", outcome }), ofOutcome];
  return [
    ...(failing === undefined ? [] : [`Most often failed: ${failing} (${times} of ${sumOf(errors)}).`]),
    ...(end === undefined
      ? []
      : [`${n} of ${all.reduce((sum, { rollouts }) => sum + rollouts, 0)} rollouts ${ended(end)}.`]),
  ].join(" ");
}

/** Limits that a rollout may run into, by its end, and the option that sets each. */
const LIMITS: Readonly<Record<string, readonly [option: string, flag: string]>> = {
  turn_limit: ["maxTurns", "max-turns"],
  token_limit: ["maxTokens", "max-tokens"],
  context_limit: ["context", "context"],
};

/** Options of the task's tools, and of a model that is imitated, whose adapter has to have the shape of the next run's. */
const TOOLS = ["mcp", "mcpAllow", "mcpDeny"];
const IMITATED = ["model", "weights", "toolFormat", "templateArg", "loraRank", "loraAlpha", "loraTargets"];

/** What fits steps with a finding of this kind; a run that a program trains is mended in the program. */
function nextOf(view: RunView, kind: string, steps: readonly Step[], all: readonly Metrics[]): string[] {
  const { program, home, name, options, given } = view;
  const one = `${program} rollouts ${name}${home} --step ${steps[0]?.step} --failed --show`;
  if (options.reward === "program") return [one];
  const train = (suffix: string, change: Readonly<Record<string, string>>) =>
    `${program} train${home}${Object.values({ ...given, ...change }).join("")} --run ${name}-${suffix}`;
  const typed = (...names: readonly string[]) => names.map((option) => given[option] ?? "").join("");
  if (kind === "failures") return [`${program} check${typed("task", "set", ...TOOLS)}`];
  const twice = (limit: readonly [string, string]) =>
    train("longer", { [limit[0]]: ` --${limit[1]} ${2 * Number(options[limit[0]])}` });
  const [end = ""] = ranked(total(all.map(({ ends }) => ends)))[0] ?? [];
  const failing = sumOf(total(all.map(({ tool_errors }) => tool_errors)));
  const limit = LIMITS[end];
  if (kind === "skipped loss" || kind === "skipped gradient") {
    const rate = Number(options.learningRate) / 10;
    const flags = { learningRate: ` --learning-rate ${rate}`, finalLearningRate: ` --final-learning-rate ${rate}` };
    return [train("slower", flags)];
  }
  if (
    limit &&
    (kind === "skipped truncated" || kind === "unsolved") &&
    2 * failing < sumOf(total(all.map(({ ends }) => ends)))
  )
    return [twice(limit)];
  if (kind === "skipped no_spread") return [train("mixed", { difficulty: " --difficulty 0.1..0.9" })];
  if (kind.startsWith("verdict") || kind === "skipped unrewarded") return [];
  // A model that has solved something needs no imitation.
  if (kind !== "unsolved" || view.steps.some(({ metrics }) => (metrics?.success ?? 0) > 0)) return [one];
  const task = given.task ?? "";
  if (task !== "" && options.model === "tiny")
    return [train("larger", { model: " --model qwen2.5-0.5b", context: "", fork: "" })];
  const player = task === "" ? "--expert" : "--player-url URL --player-model NAME";
  return [
    `${program} rollout${home}${typed("task", "set", ...TOOLS)} ${player} --split train --n 160 --group-size 1 --out played.jsonl`,
    `${program} sft played.jsonl${home}${typed("task", ...TOOLS, ...IMITATED)} --out imitated`,
    train("imitated", { fork: " --fork imitated" }),
  ];
}

/** Of the whole run first, then by the first of their steps. */
export function problemsOf(view: RunView, rows: readonly Row[] = []): Problem[] {
  const run = view.id;
  if (view.problem !== null) return [{ run, steps: [], level: "bad", text: view.problem }];
  const problems: Problem[] = [];
  const again =
    view.options.reward === "program"
      ? []
      : [`${view.program} train${view.home}${Object.values({ ...view.given, fork: "" }).join("")} --run ${view.name}`];
  const open = unfinishedStep(view);
  if (open && !view.running) {
    const text = `It was begun and not finished: ${open.n} of its rollouts are kept, and no process is training the run. Training it again goes on with it.`;
    problems.push({ run, steps: [open.step], level: "bad", text, next: again });
  } else if (open) {
    problems.push({ run, steps: [open.step], level: "note", text: `It is being played: ${open.n} rollouts so far.` });
  } else if (view.steps.every(({ metrics }) => metrics === null)) {
    const text = view.running ? "No step is finished yet." : "No step was finished.";
    problems.push({ run, steps: [], level: "note", text, next: view.running ? [] : again });
  }
  for (const { damage } of view.checkpoints)
    if (damage !== null) problems.push({ run, steps: [], level: "bad", text: damage });
  const byKind = new Map<string, { finding: Finding; step: Step; metrics: Metrics }[]>();
  for (const step of view.steps) {
    const finding = findingsOf(step, view).find(({ level, kind }) => level === "bad" || kind === "unsolved");
    if (!finding || !step.metrics) continue;
    byKind.set(finding.kind, [...(byKind.get(finding.kind) ?? []), { finding, step, metrics: step.metrics }]);
  }
  for (const [kind, found] of byKind) {
    const all = found.map(({ metrics }) => metrics);
    const steps = found.map(({ step }) => step.step);
    const inThem = new Set(steps);
    const [call] = failedCalls(rows.filter(({ step }) => inThem.has(step)));
    const first = found[0]?.finding.text ?? "";
    const cause = causeOf(kind, all, call);
    problems.push({
      run,
      steps,
      level: found[0]?.finding.level ?? "bad",
      text: found.length === 1 ? first : (textOf(kind, all) ?? first),
      ...(cause === undefined ? {} : { cause }),
      next: nextOf(
        view,
        kind,
        found.map(({ step }) => step),
        all,
      ),
    });
  }
  return problems;
}
