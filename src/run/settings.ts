/** The settings that a run records, and which of them define its identity. */
import { type Config, flagOf, type OptionName, objectiveOf, objectiveOptionNames, options } from "../config/index.js";
import type { PlainOptions } from "../tasks/index.js";
import { UsageError } from "../util/index.js";
import type { RunRecord } from "./records.js";

/** Changing one of these makes it another run. */
export const identity = [
  "seed",
  "groupsPerStep",
  "groupSize",
  "learningRate",
  "finalLearningRate",
  "warmup",
  ...objectiveOptionNames,
  "maxGradNorm",
  "loraRank",
  "loraAlpha",
  "loraTargets",
  "reward",
  "accuracy",
  "judgeModel",
  "judgeVotes",
  "judgeInputTokens",
  "judgeTemperature",
  "judgeMaxTokens",
  "control",
  "validateN",
  "temperature",
  "context",
  "maxTurns",
  "maxTokens",
  "onToolError",
  "difficulty",
  "difficultyRollouts",
  "toolFormat",
  "templateArg",
  "maxThinkingTokens",
  "mcpScope",
  "mcpAllow",
  "mcpDeny",
  "mcpResultChars",
] as const satisfies readonly OptionName[];

/** These are recorded too, but may change while the run continues. */
export const changeable = [
  "model",
  "weights",
  "task",
  "steps",
  "validateEvery",
  "keep",
  "microBatchTokens",
  // The rubric's text is compared, not its path.
  "rulerRubric",
  "judgeUrl",
  // The tools are compared, not where their servers are named.
  "mcp",
] as const;

/** Defaults that are not options; a run keeps those it was begun with. */
export const hidden = ["betas", "weightDecay", "stdFloor"] as const;

type Kept = (typeof identity)[number] | (typeof changeable)[number];
type Optional =
  | "weights"
  | "clipLow"
  | "judgeModel"
  | "judgeTemperature"
  | "judgeMaxTokens"
  | "judgeUrl"
  | "rulerRubric"
  | "templateArg"
  | "maxThinkingTokens"
  | "difficulty"
  | "difficultyRollouts"
  | "mcp"
  | "mcpScope"
  | "mcpAllow"
  | "mcpDeny"
  | "mcpResultChars";

/** Settings that a run records. */
export type RunSettings = { readonly [K in Exclude<Kept, Optional>]-?: NonNullable<Config[K]> } & {
  readonly [K in Optional]: Config[K];
} & {
  readonly betas: readonly [number, number];
  readonly weightDecay: number;
  readonly stdFloor: number;
  /** The task's options. */
  readonly set: PlainOptions;
};

export const settingsOf = (record: RunRecord) =>
  ({ ...record.options, set: taskOptionsIn(record) }) as unknown as RunSettings;

/** The task's options as the run was begun with. Runs of older versions recorded the email task's under other names. */
export function taskOptionsIn({ options }: Pick<RunRecord, "options">): PlainOptions {
  if (options.set !== undefined) return options.set as PlainOptions;
  const { db, rank } = options;
  return { ...(db === undefined ? {} : { db }), ...(rank === undefined ? {} : { rank }) };
}

const show = (value: unknown) => {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "unset");
};

/**
 * Checks that the options still describe the recorded run.
 * @param ofTask differences among the task's options
 * @throws UsageError listing every difference
 */
export function checkSameRun(
  recorded: RunRecord,
  settings: RunSettings,
  contents: RunRecord["contents"],
  folder: string,
  ofTask: readonly string[] = [],
): void {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  // Older versions did not record settings they did not have.
  const unknownThen = (name: OptionName) => {
    if (name === "advantages") return objectiveOf(settingsOf(recorded).loss).advantages;
    return name === "accuracy" ? "task" : options[name].default;
  };
  const before = (name: OptionName) => recorded.options[name] ?? unknownThen(name);
  const differences = [
    ...identity.flatMap((name) =>
      same(before(name), settings[name]) ? [] : [`${flagOf(name)} ${show(settings[name])} (was ${show(before(name))})`],
    ),
    ...ofTask,
    ...hidden.flatMap((name) => (same(recorded.options[name], settings[name]) ? [] : [`the preset's ${name}`])),
    // A run whose model had tools of MCP servers does not go on without them.
    ...Object.keys({ ...contents, ...(recorded.contents.tools ? { tools: "" } : {}) }).flatMap((name) =>
      recorded.contents[name] === contents[name] ? [] : [`other contents of the ${name}`],
    ),
  ];
  if (differences.length === 0) return;
  throw new UsageError(
    `the run ${folder} was begun differently: ${differences.join("; ")}. Leave these out to go on with it, give a new run's name with --run, or start one from a checkpoint with --run NAME --fork ${folder}/checkpoints/NNNN`,
  );
}
