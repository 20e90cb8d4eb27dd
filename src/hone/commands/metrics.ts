/** `yarn hone metrics`: the metrics of a run's steps. */

import { partsText, shareText } from "../../core/run/evaluation.js";
import { metricsLine } from "../../core/run/records.js";
import { hone } from "../../core/util/program.js";
import { difficultyOf, difficultyText } from "../../insight/report/difficulty.js";
import { metricsCsv } from "../../insight/report/metrics-csv.js";
import { wrap } from "../../insight/report/played.js";
import { columnTexts, judgedNotes, noteLines, StepTable } from "../../insight/report/step-table.js";
import { pushesOther } from "../../judge/reward/registry.js";
import { namedRun } from "../../machine/runs/place.js";
import { RunReader } from "../../machine/runs/reader.js";
import { defineCommand } from "../command.js";

/** Maximum width of a line, so that a terminal of 80 columns does not wrap it. */
const WIDTH = 79;

/** Explains each column of the table. */
function columnsText(): string {
  const columns = columnTexts();
  const first = Math.max(...columns.map(({ title }) => title.length)) + 2;
  const texts = columns.map(({ title, about }) =>
    wrap(about, WIDTH - first)
      .map((line, i) => (i === 0 ? title : "").padEnd(first) + line.trim())
      .join("\n"),
  );
  return `Columns of the table, which \`${hone("train")}\` prints too:\n\n${texts.join("\n")}`;
}

export const metricsCommand = defineCommand({
  name: "metrics",
  positional: "run",
  epilogue: columnsText(),
  async run({ run, csv, project, home }, io) {
    const found = namedRun({ home, project }, run, { trained: true });
    using reader = RunReader.open(found.folder);
    const { options } = reader.record();
    const steps = reader.steps();
    const validations = reader.validations();
    const lines = steps.filter(({ metrics }) => metrics).map(metricsLine);
    const difficulty = difficultyOf(reader.difficulty(), options.difficulty);
    if (csv) io.log(metricsCsv(steps, validations));
    else {
      if (difficulty) io.log(difficultyText(difficulty));
      const judged = pushesOther(options);
      const last = steps.at(-1)?.step ?? 0;
      const table = new StepTable(typeof options.steps === "number" ? options.steps : last, judged);
      if (lines.length > 0) io.log(table.header());
      else io.log(`the run ${found.name} has no step yet`);
      for (const line of lines) io.log([table.row(line), ...(judged ? noteLines(judgedNotes(line)) : [])].join("\n"));
      const parts = lines.at(-1)?.parts ?? {};
      if (Object.keys(parts).length > 0) io.log(`parts of the reward, step ${last}: ${partsText(parts)}`);
      for (const { step, result } of validations) {
        io.log(`${step === 0 ? "held out, before training" : `held out, after step ${step}`}: ${shareText(result)}`);
      }
    }
    return { run: found.name, steps: lines, validations, ...(difficulty ? { difficulty } : {}) };
  },
});
