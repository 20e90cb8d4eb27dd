/** `yarn hone check`: what would make training on a task useless, found before it. */
import { type CheckResult, checkTask } from "../check/index.js";
import { CONTEXT, DEFAULT_MODEL, defineCommand } from "../config/index.js";
import { linesTo, modelOptions, resolveModel } from "../models/index.js";
import { givenForTask, loadTask, taskOptionNames, taskOptionsOf } from "../tasks/index.js";
import { hone, UnfinishedError } from "../util/index.js";

/** Scenarios of each split that are played when nobody says how many. */
const SCENARIOS = 16;

function checkText({ task, scenarios, played, longest_prompt: longest, findings }: CheckResult): string {
  return [
    `${task}: ${scenarios.train} train and ${scenarios.test} test scenarios, ${played} rollouts played, longest prompt ${longest ?? "–"} tokens`,
    ...findings.map(({ level, message }) => `  ${level.padEnd(8)} ${message}`),
    ...(findings.length === 0 ? ["  nothing found"] : []),
  ].join("\n");
}

export const checkCommand = defineCommand({
  name: "check",
  summary: "Look for what makes a task useless to train on: its reward, tools, splits and prompts.",
  example: `${hone("check")} examples/arithmetic.ts`,
  options: [...taskOptionNames, "n", "model", ...modelOptions, "context", "maxTurns", "toolTimeout"],
  first: ["task", "set", "n", "seed", "model", "context"],
  positional: "task",
  async run(config, io) {
    const task = await loadTask(config.task);
    const result = await checkTask({
      task,
      taskOptions: taskOptionsOf(task, config, givenForTask(io.given)),
      io: { hub: config, say: io.say, signal: io.signal },
      n: config.n ?? SCENARIOS,
      seed: config.seed,
      maxTurns: config.maxTurns,
      toolSeconds: config.toolTimeout,
      model: await resolveModel(config.model ?? DEFAULT_MODEL, config, linesTo(io.say, io.signal)),
      context: config.context ?? CONTEXT,
      signal: io.signal,
    });
    io.say(checkText(result));
    const errors = result.findings.filter(({ level }) => level === "error").length;
    if (errors > 0) {
      throw new UnfinishedError(
        `check: ${errors} ${errors === 1 ? "error" : "errors"} in the task ${task.name}`,
        result,
      );
    }
    return result;
  },
});
