/** The settings that a run records, and which of them define its identity. */
import { type Config, type DeterminedOption, flagOf, type KeptOption, keptOptions } from "../config/config.js";
import type { PlainOptions } from "../task/task.js";
import { UsageError } from "../util/errors.js";
import { shellWord } from "../util/text.js";
import type { RunRecord } from "./records.js";

/** Settings that a run records. */
export type RunSettings = {
  readonly [K in KeptOption]-?: K extends DeterminedOption ? NonNullable<Config[K]> : Config[K];
} & {
  /** The task's options. */
  readonly set: PlainOptions;
};

export const settingsOf = (record: RunRecord) => ({ ...record.options, set: taskOptionsIn(record) }) as RunSettings;

/** The task's options as the run was begun with. */
export const taskOptionsIn = ({ options }: Pick<RunRecord, "options">): PlainOptions =>
  (options.set ?? {}) as PlainOptions;

const show = (value: unknown) => {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "unset");
};

/**
 * Checks that the options still describe the recorded run.
 * @param ofTask differences among the task's options
 * @throws UsageError listing every difference; of other weights alone where the model has its name still: nothing that could
 * be given would mend that
 */
export function checkSameRun(
  recorded: RunRecord,
  settings: RunSettings,
  contents: RunRecord["contents"],
  folder: string,
  ofTask: readonly string[] = [],
): void {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  const before = (name: KeptOption) => recorded.options[name];
  if (recorded.contents.model !== contents.model && same(before("model"), settings.model)) {
    throw new UsageError(
      `the run ${folder} was trained from other weights than --model ${settings.model} has now, and its adapters fit those alone.\nBegin another run with --run NAME`,
    );
  }
  const differences = keptOptions("identity").flatMap((name) =>
    same(before(name), settings[name]) ? [] : [`${flagOf(name)} ${show(settings[name])} (was ${show(before(name))})`],
  );
  differences.push(...ofTask);
  const undo = differences.length > 0 ? "Leave these out" : "Bring back the former";
  // A run whose model had tools of MCP servers does not go on without them.
  for (const name of Object.keys({ ...contents, ...(recorded.contents.tools ? { tools: "" } : {}) }))
    if (recorded.contents[name] !== contents[name]) differences.push(`other contents of the ${name}`);
  if (differences.length === 0) return;
  throw new UsageError(
    `the run ${folder} was begun differently: ${differences.join("; ")}.\n${undo} to go on with it, begin another with --run NAME, or start one from its checkpoint with --run NAME --fork ${shellWord(`${folder}/checkpoints/NNNN`)}`,
  );
}
