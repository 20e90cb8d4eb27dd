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

function blockOf(evaluation: NamedEvaluation): string[] {
  const {
    checkpoint,
    step,
    n,
    reward,
    turns,
    completion_tokens: tokens,
    parts,
    ends,
    tool_errors,
    failures,
  } = evaluation;
  const title = step === null ? "base model" : `step ${step}`;
  const named = Object.entries(parts).map(([name, part]) => `${name} ${compact(part.mean)} (n=${part.n})`);
  return [
    `${checkpoint} (${title})`,
    `  success     ${shareText(evaluation)}`,
    `  reward      ${compact(reward)} (n=${n})${named.length > 0 ? `: ${named.join(", ")}` : ""}`,
    `  turns       ${compact(turns)}, tokens written ${compact(tokens)} a rollout`,
    `  ends        ${counts(ends)}`,
    `  tool errors ${counts(tool_errors)}`,
    ...(failures > 0 ? [`  failed      ${failures} rollouts, not counted above`] : []),
  ];
}

/** A table first when there are several, then each in full. */
export function evalText(evaluations: readonly NamedEvaluation[]): string {
  const width = Math.max(...evaluations.map(({ checkpoint }) => checkpoint.length));
  const table =
    evaluations.length < 2
      ? []
      : [
          ...evaluations.map(
            (one) => `${one.checkpoint.padEnd(width)}  success ${shareText(one)}  reward ${compact(one.reward)}`,
          ),
          "",
        ];
  return [...table, ...evaluations.flatMap(blockOf)].join("\n");
}
