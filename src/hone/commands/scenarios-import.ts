/** `yarn hone scenarios import`: scenarios, and trajectories for imitation, from the logs that an agent writes. */

import { countsText } from "../../core/run/evaluation.js";
import { type ImportSummary, importLogs } from "../../scenarios/import.js";
import { defineCommand } from "../command.js";

function summaryText(summary: ImportSummary): string {
  const { records, joined, conversations, unused, train, test, without_scenario: lacking } = summary;
  const { trajectories, held_out: heldOut, masked, scenarios_file: scenarios, trajectories_file: file } = summary;
  const text = (counts: object) => countsText(counts as Record<string, number>);
  return [
    `${conversations} conversations in ${records} records${joined > 0 ? `, ${joined} of them earlier turns` : ""}`,
    `  not used      ${text(unused) || "none"}`,
    `  scenarios     ${train} train, ${test} test${text(lacking) ? `; without one: ${text(lacking)}` : ""}`,
    `  trajectories  ${trajectories}${heldOut > 0 ? `; ${heldOut} left out, their questions are for tests` : ""}`,
    ...(text(masked) ? [`  masked        ${text(masked)}`] : []),
    ...(summary.not_masked ? [`  not masked    ${summary.not_masked}`] : []),
    `  written to    ${scenarios}\n                ${file}`,
  ].join("\n");
}

export const importCommand = defineCommand({
  name: "scenarios import",
  required: ["logs"],
  positional: "logs",
  async run(config, io) {
    const summary = await importLogs(config, io.signal);
    io.log(summaryText(summary));
    return summary;
  },
});
