/**
 * Writes training traces: the lessons of lessons.mjs, each played on every training scenario of a mail database through the
 * real tools by an expert of its own, and cut into the pieces of text that a rollout would give to the model or expect from it.
 *
 *   node models/tiny/recipe/traces.mjs --db FILE --out FILE.jsonl
 *
 * One JSON line a conversation: `{kind, pieces: [[text, role], ...]}`. `kind` is the lesson's name. Roles: "given" (prompt,
 * tool results), "played" (a turn of the expert, its closing token included). The pieces joined are what `ChatTemplate` renders.
 */

import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { parseArgs } from "node:util";
import { opening, playRollout } from "../../../dist/src/core/rollout/rollout.js";
import { Random } from "../../../dist/src/core/util/random.js";
import { ExpertSession } from "../../../dist/src/hone/expert-session.js";
import { loadTask } from "../../../dist/src/scenarios/load.js";
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

const { values } = parseArgs({ options: { db: { type: "string" }, out: { type: "string" } } });
const task = await loadTask("email");
const scenarios = (await task.scenarios({ db: values.db })).filter(({ split }) => split === "train");
const env = await task.open({ db: values.db });
const out = createWriteStream(values.out);
const { signal } = new AbortController();

async function* conversations(asked) {
  for (const kind of Object.keys(lessons)) {
    const random = new Random("trace", "1", asked.id, kind);
    const { task: taught, scenario } = lessonOf(task, asked, kind, random);
    const session = new ExpertSession(taught, scenario, random, { mistakes: {} });
    const outcome = await playRollout({ task: taught, scenario, env, session, limits, signal });
    // A lesson that ends with a tool's result teaches nothing about what comes after it.
    yield { kind, pieces: piecesOf(outcome, opening(taught, scenario, limits.maxTurns)).slice(0, 2 * CALLS) };
  }
}

for (const scenario of scenarios) {
  for await (const conversation of conversations(scenario)) {
    if (!out.write(`${JSON.stringify(conversation)}\n`)) await once(out, "drain");
  }
}
await task.close(env);
out.end();
await once(out, "finish");
