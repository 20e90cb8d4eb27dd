/** `yarn eval`: evaluates checkpoints, models and APIs on held-out scenarios. */

import type { Trajectory } from "../../core/rollout/trajectory.js";
import { HoneError, UnfinishedError } from "../../core/util/errors.js";
import { type EvalView, evaluatePlayers } from "../../insight/evaluate/evaluate.js";
import { matrixText } from "../../insight/report/eval-report.js";
import { RolloutTally } from "../../insight/report/rollout-report.js";
import { writeEvaluation } from "../../insight/view/evaluation-file.js";
import { type CommandIo, defineCommand } from "../command.js";

/** Evaluates, and shows who plays and how far. */
export function evaluateShown(
  config: Parameters<typeof evaluatePlayers>[0],
  { given, signal, progress, log }: CommandIo,
  onRollout?: (trajectory: Trajectory, name: string) => void,
) {
  let title = "";
  let total = 0;
  let tally = new RolloutTally();
  const shown = () => progress.update(() => `${title} ${tally.line(total)}`);
  const view: EvalView = {
    begin: (name, scenarios) => {
      title = name;
      total = scenarios;
      tally = new RolloutTally();
      shown();
    },
    rollout: (trajectory, name) => {
      onRollout?.(trajectory, name);
      tally.add(trajectory);
      shown();
    },
    log,
  };
  return evaluatePlayers(config, given, { signal, view }).finally(() => progress.clear());
}

export const evalCommand = defineCommand({
  name: "eval",
  async run(config, io) {
    const { run, matrix } = await evaluateShown(config, io);
    io.log(`${run === null ? matrix.task : `run ${run}`}, ${matrixText(matrix)}`);
    const result = { run, ...matrix };
    if (config.page !== undefined) {
      try {
        writeEvaluation(matrix, config.page);
      } catch (error) {
        // What was played is not lost with its page.
        throw error instanceof HoneError ? new UnfinishedError(error.message, result) : error;
      }
      io.log(`page: ${config.page}`);
    }
    const noVerdict = matrix.columns.filter((column) => column.problem !== null);
    if (noVerdict.length > 0) {
      const names = noVerdict.map(({ title }) => title).join(", ");
      throw new UnfinishedError(
        `${noVerdict.length} of ${matrix.columns.length} players have no result: ${names}`,
        result,
      );
    }
    return result;
  },
});
