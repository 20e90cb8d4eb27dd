/**
 * Writes traces of examples/word-sums.ts by its expert, who draws the meanings of all verbs at random: a line each, as
 * traces.mjs writes them. Only train questions are played.
 *
 *   node models/tiny/recipe/word-sums.mjs --out FILE.jsonl [--seed N] [--scenarios N]
 */

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ExpertSession } from "../../../dist/src/rollout/expert-session.js";
import { opening, playRollout } from "../../../dist/src/rollout/rollout.js";
import { loadTask } from "../../../dist/src/tasks/load.js";
import { Random } from "../../../dist/src/util/random.js";
import { piecesOf } from "./pieces.mjs";

const limits = {
  ...{ maxTurns: 4, maxTokens: 256, turnSeconds: 60, toolSeconds: 60, rolloutSeconds: 60 },
  onToolError: "stop",
};

const { values } = parseArgs({
  options: {
    out: { type: "string" },
    seed: { type: "string", default: "9001" },
    scenarios: { type: "string", default: "20000" },
  },
});
const task = await loadTask(fileURLToPath(new URL("../../../examples/word-sums.ts", import.meta.url)));
const all = await task.scenarios({ seed: Number(values.seed), scenarios: Number(values.scenarios) });
const { signal } = new AbortController();

const lines = [];
for (const scenario of all.filter(({ split }) => split === "train")) {
  const session = new ExpertSession(task, scenario, new Random("blind", scenario.id), { mistakes: 1 });
  const outcome = await playRollout({ task, scenario, env: undefined, session, limits, signal });
  const pieces = piecesOf(outcome, opening(task, scenario, limits.maxTurns));
  lines.push(JSON.stringify({ kind: scenario.kind, success: outcome.reward.success, pieces }));
}
writeFileSync(values.out, `${lines.join("\n")}\n`);
