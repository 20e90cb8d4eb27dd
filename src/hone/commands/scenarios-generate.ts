/** `yarn hone scenarios generate`: makes scenarios from mail, documents, a database or MCP servers. */

import { countsText } from "../../core/run/evaluation.js";
import { usageText } from "../../insight/report/judge-report.js";
import { bar } from "../../insight/report/progress-line.js";
import { type GenerateSummary, generateScenarios } from "../../scenarios/open.js";
import { defineCommand } from "../command.js";

function summaryText(summary: GenerateSummary): string {
  const { file, unit, train, test, pieces, explored, silent, candidates, dropped, skipped, cached, reviewed } = summary;
  return [
    `${train + test} scenarios: ${train} train, ${test} test`,
    `  read        ${pieces} of ${explored} ${unit}${silent > 0 ? `, ${silent} gave no question` : ""}`,
    ...(Object.keys(skipped).length > 0 ? [`  passed over ${countsText(skipped)}`] : []),
    `  written     ${candidates} candidates`,
    `  dropped     ${countsText(dropped as Record<string, number>) || "none"}`,
    ...(reviewed > 0 ? [`  reviewed    ${reviewed}, which stay as a person decided`] : []),
    `  model       ${usageText(summary, cached)}`,
    `  written to  ${file}`,
  ].join("\n");
}

export const generateCommand = defineCommand({
  name: "scenarios generate",
  async run(config, io) {
    const { signal, log, progress } = io;
    const summary = await generateScenarios(config, {
      signal,
      log,
      onProgress: ({ kept, pieces, of }) =>
        progress.update(() => `writing ${bar(pieces / of, 20)} ${pieces} of ${of} read, ${kept} scenarios kept`),
    });
    log(summaryText(summary));
    return summary;
  },
});
