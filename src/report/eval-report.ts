/** Checkpoints side by side, for people. */
import type { Evaluation } from "./evaluation.js";
import { compact } from "./progress-line.js";
import { shareText } from "./train-view.js";

export interface NamedEvaluation extends Evaluation {
  readonly checkpoint: string;
  readonly step: number | null;
}

const counts = (record: Readonly<Record<string, number>>) =>
  Object.entries(record)
    .sort(([, a], [, b]) => b - a)
    .map(([name, n]) => `${name} ${n}`)
    .join(", ") || "none";

const titleOf = ({ checkpoint, step }: NamedEvaluation) =>
  `${checkpoint} (${step === null ? "base model" : `step ${step}`})`;

/** @param titles all names that the checkpoint was asked for by */
function blockOf(evaluation: NamedEvaluation, titles: readonly string[]): string[] {
  const { n, reward, turns, completion_tokens: tokens, parts, ends, tool_errors, failures } = evaluation;
  const named = Object.entries(parts).map(([name, part]) => `${name} ${compact(part.mean)} (n=${part.n})`);
  return [
    titles.join(", "),
    `  success     ${shareText(evaluation)}`,
    `  reward      ${compact(reward)} (n=${n})${named.length > 0 ? `: ${named.join(", ")}` : ""}`,
    `  turns       ${compact(turns)}, tokens written ${compact(tokens)} a rollout`,
    `  ends        ${counts(ends)}`,
    `  tool errors ${counts(tool_errors)}`,
    ...(failures > 0 ? [`  failed      ${failures} rollouts, not counted above`] : []),
  ];
}

/** A table first when there are several, then each in full, one asked for by two names once. */
export function evalText(evaluations: readonly NamedEvaluation[]): string {
  const width = Math.max(...evaluations.map((one) => titleOf(one).length));
  const lines = evaluations.map(
    (one) => `${titleOf(one).padEnd(width)}  success ${shareText(one)}  reward ${compact(one.reward)}`,
  );
  const blocks = evaluations
    .filter(({ step }, index) => evaluations.findIndex((other) => other.step === step) === index)
    .flatMap((one) => blockOf(one, evaluations.filter(({ step }) => step === one.step).map(titleOf)));
  return [...(evaluations.length < 2 ? [] : [...lines, ""]), ...blocks].join("\n");
}
