/**
 * Writes training traces: the email task's scripted expert plays scenarios of a mail database through the real tools,
 * and each conversation is cut into the pieces of text that a rollout would give to the model or expect from it.
 *
 *   node models/tiny/recipe/traces.mjs --db FILE --out FILE.jsonl [--mistakes JSON | --lessons] [--seed N] [--limit N]
 *
 * --lessons: not the task but the lessons of lessons.mjs are played, each on every scenario; `kind` is the lesson's name.
 *
 * One JSON line a conversation: `{kind, success, pieces: [[text, role], ...]}`. Roles: "given" (prompt, tool results),
 * "played" (a turn of the expert, its closing token included), "slip" (a turn whose call failed or found nothing). The
 * pieces joined are what `ChatTemplate` renders.
 */

import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { parseArgs } from "node:util";
import { ExpertSession } from "../../../dist/src/rollout/expert-session.js";
import { opening, playRollout } from "../../../dist/src/rollout/rollout.js";
import { loadTask } from "../../../dist/src/tasks/load.js";
import { Random } from "../../../dist/src/util/random.js";
import { CALLS, lessonOf, lessons } from "./lessons.mjs";
import { piecesOf } from "./pieces.mjs";

const limits = {
  maxTurns: 10,
  maxTokens: 2048,
  turnSeconds: 60,
  toolSeconds: 60,
  rolloutSeconds: 60,
  onToolError: "observe",
};

const { values } = parseArgs({
  options: {
    db: { type: "string" },
    out: { type: "string" },
    mistakes: { type: "string", default: "{}" },
    lessons: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    limit: { type: "string", default: "1000000000" },
  },
});
const mistakes = JSON.parse(values.mistakes);
const task = await loadTask("email");
const scenarios = (await task.scenarios({ db: values.db })).filter(({ split }) => split === "train");
const env = await task.open({ db: values.db });
const out = createWriteStream(values.out);
const { signal } = new AbortController();

/** One conversation, by the expert of the task, or of the lesson that stands in its place. */
async function play({ task, scenario }, random) {
  const session = new ExpertSession(task, scenario, random, { mistakes });
  const outcome = await playRollout({ task, scenario, env, session, limits, signal });
  const pieces = piecesOf(outcome, opening(task, scenario, limits.maxTurns));
  return { success: outcome.reward.success, pieces };
}

async function* conversations(scenario) {
  if (!values.lessons) {
    yield { kind: scenario.kind, ...(await play({ task, scenario }, new Random("trace", values.seed, scenario.id))) };
    return;
  }
  for (const kind of Object.keys(lessons)) {
    const random = new Random("trace", values.seed, scenario.id, kind);
    const { pieces } = await play(lessonOf(task, scenario, kind, random), random);
    // A lesson that ends with a tool's result teaches nothing about what comes after it.
    yield { kind, pieces: pieces.slice(0, 2 * CALLS) };
  }
}

for (const scenario of scenarios.slice(0, Number(values.limit))) {
  for await (const conversation of conversations(scenario)) {
    if (!out.write(`${JSON.stringify(conversation)}\n`)) await once(out, "drain");
  }
}
await task.close(env);
out.end();
await once(out, "finish");
