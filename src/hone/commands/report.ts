/** `yarn report`: writes a report of runs as one HTML file. */

import { HoneError } from "../../core/util/errors.js";
import { compact } from "../../insight/report/progress-line.js";
import { writeReport } from "../../insight/view/report-file.js";
import { openRuns } from "../../insight/view/runs.js";
import { defineCommand } from "../command.js";

/** Bytes of a file's name that every file system takes, with an ending. */
const NAME_BYTES = 200;

function fileOf(names: readonly string[]): string {
  const all = names.join("+");
  return `${Buffer.byteLength(all) <= NAME_BYTES ? all : `${names[0]}+${names.length - 1}`}.html`;
}

export const reportCommand = defineCommand({
  name: "report",
  positional: "runs",
  async run({ runs: words = [], out, sample, project, home }, io) {
    const runs = openRuns({ home, project }, words);
    try {
      const problem = runs.find((run) => run.problem !== null)?.problem;
      if (problem) throw new HoneError(problem);
      const file = out ?? fileOf(runs.map(({ name }) => name));
      const summary = await writeReport(runs, file, sample);
      const { bytes, rollouts, embedded } = summary;
      io.log(`${file}: ${compact(bytes / 1e6)} MB, conversations of ${embedded} of ${rollouts} rollouts`);
      return summary;
    } finally {
      for (const run of runs) run.close();
    }
  },
});
