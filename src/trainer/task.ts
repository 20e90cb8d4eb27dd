/** A task with its scenarios, as the library plays it. */
import { resolve } from "node:path";
import { serverLogs, withServers } from "../agent/servers.js";
import type { ServerPlan } from "../core/task/servers.js";
import type { AnyTask, PlainOptions, Scenario } from "../core/task/task.js";
import { UsageError } from "../core/util/errors.js";
import { withAbsolutePaths } from "../machine/models/absolute-paths.js";
import { loadTask, scenariosOf } from "../scenarios/load.js";
import { taskOptionsOf } from "../scenarios/task-options.js";

export interface TaskChoice {
  /** The task's own options. */
  readonly set?: PlainOptions;
  /** Seed of everything random: the task's scenarios, rollouts, the learner. Default 1. */
  readonly seed?: number;
  /** Folder that holds hone's state. Default ".hone". */
  readonly home?: string;
  /** Seconds that the task's file, `scenarios`, `open`, `close` and `prompt` may take each. Default 300. */
  readonly taskTimeout?: number;
  /** File with MCP servers (`--mcp`), whose tools the model gets in addition to the task's. */
  readonly mcp?: string;
  /** Called with a line for each tool that the model does not get. */
  readonly log?: (line: string) => void;
}

export interface OpenTask {
  /** The task, including the tools of its MCP servers. */
  readonly task: AnyTask;
  /** "email", "openenv", or the path of the task's file, which worker threads load. */
  readonly reference: string;
  /** All options passed to the task: its own, `seed` and `home`. */
  readonly options: PlainOptions & { readonly seed: number; readonly home: string };
  readonly scenarios: readonly Scenario[];
  /** Training scenarios. */
  readonly train: readonly Scenario[];
  /** Test scenarios. */
  readonly test: readonly Scenario[];
  /** The file given with `mcp`, and the MCP servers of that file and of the task. */
  readonly mcp: string | undefined;
  readonly servers: ServerPlan | undefined;
}

const FIELDS = { set: true, seed: true, home: true, taskTimeout: true, mcp: true, log: true } satisfies Record<
  keyof TaskChoice,
  true
>;

/**
 * @param reference "email", "openenv", or the path of a file whose default export comes from `defineTask`
 * @throws UsageError when an argument is wrong, there is no such file, or the task has no such option
 * @throws HoneError when the task's own code fails
 */
export async function openTask(reference: string, choice: TaskChoice = {}): Promise<OpenTask> {
  const { checkChoice, checkWhole } = await import("./checked.js");
  if (typeof reference !== "string")
    throw new UsageError("openTask(): its first argument is the path of the task's file");
  checkChoice("openTask()", choice, FIELDS);
  const { set = {}, seed = 1, home = ".hone", taskTimeout, mcp, log = () => undefined } = choice;
  checkWhole("openTask(): seed", seed, 0);
  const plain = await loadTask(reference, taskTimeout);
  const taskOptions = { ...taskOptionsOf(plain, { home, seed }, set), seed, home };
  const scenarios = await scenariosOf(plain, taskOptions);
  const own = { mcp, mcpAllow: undefined, mcpDeny: undefined };
  const { task, servers } = await withServers(own, plain, reference, serverLogs(home), { log });
  return openedTask({ task, reference, options: taskOptions, scenarios, mcp, servers });
}

/** @param opened its scenarios not yet dealt by their split, and its files as they were given */
export function openedTask(opened: Omit<OpenTask, "train" | "test">): OpenTask {
  const { reference, scenarios, mcp } = opened;
  const of = (split: Scenario["split"]) => scenarios.filter((scenario) => scenario.split === split);
  return {
    ...opened,
    reference: String(withAbsolutePaths({ task: reference }).task),
    train: of("train"),
    test: of("test"),
    mcp: mcp === undefined ? undefined : resolve(mcp),
  };
}
