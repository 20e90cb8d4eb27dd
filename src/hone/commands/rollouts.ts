/** `yarn hone rollouts`: lists a run's stored rollouts, shows one, or exports them to a trajectory file. */

import { countsText } from "../../core/run/evaluation.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { LineFile } from "../../core/util/files.js";
import { toJson } from "../../core/util/json.js";
import { printable } from "../../core/util/text.js";
import { conversationText } from "../../insight/report/conversation.js";
import { difficultyOf, difficultyText } from "../../insight/report/difficulty.js";
import { compact } from "../../insight/report/progress-line.js";
import { namedRun } from "../../machine/runs/place.js";
import { type RolloutFilter, RunReader, type SeenRollout } from "../../machine/runs/reader.js";
import { defineCommand } from "../command.js";

/** "7" or "3-9". */
function stepsOf(text: string): Pick<RolloutFilter, "from" | "to"> {
  const [, from, to = from] = text.match(/^(\d+)(?:-(\d+))?$/) ?? [];
  if (from === undefined || Number(to) < Number(from)) {
    throw new UsageError(`--step ${text}: give a number such as 7, or a range such as 3-9`);
  }
  return { from: Number(from), to: Number(to) };
}

/**
 * The steps whose rollouts are listed: those of `--step`; else all where one scenario is followed or a file is written, and
 * the newest step otherwise.
 * @throws HoneError when the run keeps no rollouts of the steps asked for
 */
function chosenSteps(
  reader: RunReader,
  run: string,
  { step, all }: { step: string | undefined; all: boolean },
): Pick<RolloutFilter, "from" | "to"> {
  const kept = reader.counts().map((count) => count.step);
  const newest = Math.max(...kept);
  if (step === undefined) return all || kept.length === 0 ? {} : { from: newest, to: newest };
  const range = stepsOf(step);
  const { from = 0, to = newest } = range;
  if (kept.some((one) => one >= from && one <= to)) return range;
  const has = kept.length === 0 ? "none yet" : `those of steps ${Math.min(...kept)} to ${newest}`;
  throw new HoneError(`${run} keeps no rollouts of step ${step}; it has ${has}`);
}

const signed = (value: number | null) => (value === null ? "–" : `${value > 0 ? "+" : ""}${compact(value)}`);

const WIDTHS = [5, 6, 6, 9, 5, 6];

/** Pads the cells; the last two are left-aligned. */
const rowText = (cells: readonly string[]) =>
  [
    ...WIDTHS.map((width, i) => (cells[i] ?? "").padStart(width)),
    (cells[WIDTHS.length] ?? "").padEnd(13),
    cells.at(-1),
  ].join("  ");

const HEADER = rowText(["step", "solved", "reward", "advantage", "turns", "tokens", "end", "rollout"]);

const listText = ({ phase, step, scenario, member, ...row }: SeenRollout) =>
  rowText([
    `${step}${phase === "validation" ? "*" : " "}`,
    row.success ? "yes" : "no",
    compact(row.reward),
    signed(row.advantage),
    String(row.turns),
    compact(row.completionTokens),
    row.end,
    `${printable(scenario)}/${member}`,
  ]);

/** The reward and advantage used by the update, and the judge's explanation. */
function creditText({ trainingReward, advantage, explanation }: SeenRollout): string {
  if (trainingReward === null && explanation === null) return "";
  const credit =
    trainingReward === null ? "" : `trained: reward ${compact(trainingReward)}, advantage ${signed(advantage)}\n`;
  return `${credit}${explanation === null ? "" : `judge: ${printable(explanation)}\n`}`;
}

export const rolloutsCommand = defineCommand({
  name: "rollouts",
  positional: "run",
  async run({ run, step, failed, end, split, scenario, show, jsonl, project, home }, io) {
    if (step !== undefined) stepsOf(step);
    const found = namedRun({ home, project }, run);
    const reader = RunReader.open(found.folder);
    // Validations play test scenarios; steps play training scenarios.
    const phase = split === undefined ? {} : ({ phase: split === "train" ? "train" : "validation" } as const);
    const steps = chosenSteps(reader, found.name, { step, all: scenario !== undefined || jsonl !== undefined });
    const out = jsonl === undefined ? undefined : new LineFile(jsonl, `--jsonl ${jsonl}`);
    const ends: Record<string, number> = {};
    const listed: object[] = [];
    const difficulty = difficultyOf(reader.difficulty(), reader.record().options.difficulty);
    let isMeasured = false;
    let isRead = false;
    try {
      for (const rollout of reader.rollouts({ ...steps, ...phase })) {
        const { trajectory, ...row } = rollout;
        if ((failed && row.success) || (end !== undefined && row.end !== end)) continue;
        if (scenario !== undefined && row.scenario !== scenario) continue;
        if (listed.length === 0 && !show) io.log(HEADER);
        listed.push(row);
        isMeasured ||= row.phase === "train" && row.step === 0;
        ends[row.end] = (ends[row.end] ?? 0) + 1;
        out?.add(toJson(trajectory));
        if (show) io.show(conversationText(trajectory, io.stream.isTTY) + creditText(rollout));
        else io.log(listText(rollout));
      }
      isRead = true;
    } finally {
      reader.close();
      out?.end(isRead);
    }
    const credit = listed.length === 0 ? "no such rollout" : `${listed.length} rollouts (${countsText(ends)})`;
    io.log(
      `${found.name}: ${credit}${jsonl === undefined ? "" : `, written to ${jsonl}`}${!show && listed.length > 0 ? "; * held out" : ""}`,
    );
    if (step === undefined && steps.from !== undefined) {
      io.log(`step ${steps.from}, the newest; --step takes another, or a range such as 1-${Math.max(2, steps.from)}`);
    }
    if (difficulty && isMeasured) io.log(`step 0, before training: ${difficultyText(difficulty)}`);
    return {
      run: found.name,
      rollouts: listed,
      ...(difficulty ? { difficulty } : {}),
      ...(jsonl === undefined ? {} : { trajectories: jsonl }),
    };
  },
});
