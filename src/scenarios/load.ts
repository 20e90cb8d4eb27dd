/**
 * Loads a task: the built-in one by name, a user's by the path of its file (TypeScript or JavaScript, through jiti).
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type OWN_TASKS, TASK_SECONDS } from "../core/config/defaults.js";
import type { AnyTask, PlainOptions, Scenario, ScenarioIo } from "../core/task/task.js";
import { HoneError, messageOf, UsageError } from "../core/util/errors.js";
import { importUserFile } from "../core/util/user-file.js";
import { type TimeAllowed, timed, timedNow } from "../core/util/watch.js";

/** Built-in tasks, each loaded when it is chosen. */
const builtIn: Readonly<Record<(typeof OWN_TASKS)[number], () => Promise<AnyTask>>> = {
  email: async () => (await import("../email/email-task.js")).emailTask,
  openenv: async () => (await import("../agent/openenv/task.js")).openEnv(),
};

function isTask(value: unknown): value is AnyTask {
  if (typeof value !== "object" || value === null) return false;
  const task = value as Record<string, unknown>;
  return (
    typeof task.name === "string" &&
    typeof task.scenarios === "function" &&
    typeof task.prompt === "function" &&
    typeof task.reward === "function" &&
    typeof task.open === "function" &&
    typeof task.options === "object" &&
    Array.isArray(task.tools)
  );
}

/**
 * Loads a task in this thread. Workers call it again with the same reference: closures cannot be sent to them.
 *
 * @param reference "email", "openenv", or the path of a file whose default export comes from `defineTask`
 * @param seconds that the file, `scenarios`, `open`, `close` and `prompt` may take each (`--task-timeout`)
 * @throws UsageError when there is no such file
 * @throws HoneError when it has no task, or its code fails or takes longer
 */
export async function loadTask(reference: string, seconds = TASK_SECONDS): Promise<AnyTask> {
  if (Object.hasOwn(builtIn, reference)) return await builtIn[reference as keyof typeof builtIn]();
  const file = resolve(reference);
  if (!existsSync(file)) {
    throw new UsageError(
      `there is no task file ${file}; give the path of one, or a task of hone's: ${Object.keys(builtIn).join(", ")}`,
    );
  }
  const { withOrigin, withOrigins } = await import("./origin.js");
  const loaded = await timed(allowed(`the task file ${file}`, seconds), () =>
    importUserFile(file).catch((error: unknown) => {
      // By its name: the file has the built package's.
      if ((error as Partial<Error> | null)?.name === "DefinitionError")
        throw new HoneError(`${file}: ${messageOf(error)}`, { cause: error });
      const why = messageOf(withOrigin(error, file)).split("\n")[0];
      throw new HoneError(`the task file ${file} could not be loaded: ${why}`, { cause: error });
    }),
  );
  if (!isTask(loaded)) {
    throw new HoneError(
      `the task file ${file} has no task: it must \`export default defineTask({...})\` from "@hone-rl/hone"`,
    );
  }
  return withLimits(withOrigins(loaded, file), seconds);
}

/** JSON writes such an object as {}: a Map, a promise that nobody has awaited. */
const isOpaque = (value: unknown): value is object =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  ![Object.prototype, null].includes(Object.getPrototypeOf(value)) &&
  Object.keys(value).length === 0;

/** The field of a scenario that is no plain data: workers and files cannot have it. */
function strangeField(scenario: Scenario): string | undefined {
  let strange: string | undefined;
  JSON.stringify(scenario, (name, value: unknown) => {
    if (["bigint", "function", "symbol"].includes(typeof value)) strange = `${name} is a ${typeof value}`;
    if (isOpaque(value)) strange = `${name} is a ${value.constructor.name}`;
    return typeof value === "bigint" ? null : value;
  });
  return strange;
}

function checkPlain(task: AnyTask, scenarios: readonly Scenario[]): void {
  const ids = new Set<string>();
  for (const [index, scenario] of scenarios.entries()) {
    const id: unknown = scenario?.id;
    if (typeof id !== "string" || id === "")
      throw new HoneError(
        `the task ${task.name}: scenario ${index + 1} has no id; give each a text of its own as \`id\``,
      );
    if (ids.has(id))
      throw new HoneError(
        `the task ${task.name}: two scenarios have the id ${id}; give each a text of its own as \`id\``,
      );
    ids.add(id);
    let problem: string | undefined;
    try {
      problem = strangeField(scenario);
    } catch (error) {
      // A circle, or a toJSON that throws.
      problem = messageOf(error).split("\n")[0];
    }
    if (problem === undefined) continue;
    throw new HoneError(
      `the scenario ${scenario?.id} of the task ${task.name} is no plain data: ${problem}; use strings, numbers, lists and objects`,
    );
  }
}

function checkSplits(task: AnyTask, scenarios: readonly Scenario[]): void {
  const wrong = scenarios.find(({ split }) => split !== "train" && split !== "test");
  if (!wrong) return;
  const count = scenarios.filter(({ split }) => split === wrong.split).length;
  throw new HoneError(
    `the task ${task.name}: split ${JSON.stringify(wrong.split)} of ${count} ${count === 1 ? "scenario" : "scenarios"} is neither train nor test`,
  );
}

/**
 * The scenarios of a task.
 *
 * @param io access for downloading scenarios from the Hub
 * @throws HoneError when the task's own code fails, or a scenario is no plain data, in no split or has another's id
 */
export async function scenariosOf(task: AnyTask, options: PlainOptions, io?: ScenarioIo): Promise<readonly Scenario[]> {
  let scenarios: readonly Scenario[];
  try {
    scenarios = await task.scenarios(options, io);
  } catch (error) {
    if (error instanceof HoneError) throw error;
    throw new HoneError(`the task ${task.name} could not list its scenarios: ${messageOf(error)}`, { cause: error });
  }
  if (!Array.isArray(scenarios))
    throw new HoneError(`the task ${task.name}: what scenarios returned is no list; return [{ id, split, ... }, ...]`);
  checkPlain(task, scenarios);
  checkSplits(task, scenarios);
  return scenarios;
}

/** Time for a task's own code outside of rollouts: its file, `scenarios`, `open`, `close`, and `prompt`. */
const allowed = (what: string, seconds: number): TimeAllowed => ({ what, seconds, remedy: "--task-timeout" });

function withLimits(task: AnyTask, seconds: number): AnyTask {
  const part = (name: string) => allowed(`${name} of the task ${task.name}`, seconds);
  return {
    ...task,
    scenarios: (given, io) =>
      timed(part("scenarios"), (alive) => {
        const log = (line: string) => {
          alive();
          io?.log?.(line);
        };
        return task.scenarios(given, { ...io, log, alive });
      }),
    open: (given) => timed(part("open"), () => task.open(given)),
    close: (env) => timed(part("close"), () => task.close(env)),
    prompt: (scenario, limits) => timedNow(part("prompt"), () => task.prompt(scenario, limits)),
  };
}
