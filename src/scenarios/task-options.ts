/**
 * A task's options: its schema, the given values (`--set NAME=VALUE`, or a flag that is short for one), and their list
 * in `--help`. Values are plain data: runs record them, and workers receive them.
 */
import { resolve } from "node:path";
import { z } from "zod";
import type { Config, GivenOptions } from "../core/config/config.js";
import { removedOption } from "../core/config/removed.js";
import type { AnyTask, PlainOptions } from "../core/task/task.js";
import { UsageError } from "../core/util/errors.js";
import { jsonOrText } from "../core/util/json.js";
import { nearest } from "../core/util/nearest.js";

/**
 * Flags that are short for `--set` with the same name: those from before tasks had options of their own, and those of
 * `fromFile`.
 */
const SHORT = ["db", "scenarios", "map", "testShare"] as const;

/** The given values of the task's options. */
export function givenForTask(given: GivenOptions): PlainOptions {
  const set = (given.set ?? {}) as PlainOptions;
  const short = SHORT.filter((name) => given[name] !== undefined);
  // The search command's; a config file may have it for both.
  const removed = Object.hasOwn(given, "rank") && removedOption("rank", "rank", "rollout");
  if (removed) throw removed;
  const twice = short.find((name) => set[name] !== undefined);
  if (twice) throw new UsageError(`--${twice} is short for --set ${twice}=...; give one of them`);
  return { ...Object.fromEntries(short.map((name) => [name, given[name]])), ...set };
}

const fieldsOf = (task: AnyTask): [string, z.ZodType][] => Object.entries(task.options.shape);

/** Whether a field is the path of a file or folder, marked in its schema by `.meta({ path: true })`. */
const isPath = (field: z.ZodType) => field.meta()?.path === true;

/** Makes a path absolute; data sets of the Hub are not paths. */
const placeOf = (value: string) => (value.startsWith("hf:") ? value : resolve(value));

/** The recorded values of options that the task still has. */
export function recordedForTask(task: AnyTask, recorded: PlainOptions): PlainOptions {
  return Object.fromEntries(Object.entries(recorded).filter(([name]) => Object.hasOwn(task.options.shape, name)));
}

/**
 * How the task's options differ from those that the run was started with, a line each. Paths may change, since their
 * content is compared; an option that is new in the task had its default.
 */
export function taskDifferences(task: AnyTask, recorded: PlainOptions, now: PlainOptions): string[] {
  const before: PlainOptions = resolveTaskOptions(task, recordedForTask(task, recorded));
  const changed = fieldsOf(task).flatMap(([name, field]) =>
    isPath(field) || JSON.stringify(before[name]) === JSON.stringify(now[name])
      ? []
      : [`--set ${name}=${shown(now[name] ?? "unset")} (was ${shown(before[name] ?? "unset")})`],
  );
  const gone = Object.keys(recorded).filter(
    (name) => !Object.hasOwn(before, name) && !Object.hasOwn(task.options.shape, name),
  );
  return [...changed, ...gone.map((name) => `the task has no option ${name} any more (was ${shown(recorded[name])})`)];
}

/** A flag's value is text: used as it is if the field accepts text, else parsed as JSON. */
function valueFor(field: z.ZodType, given: unknown): unknown {
  return typeof given !== "string" || field.safeParse(given).success ? given : jsonOrText(given);
}

/** The default of a field, if it can be given as a value. */
function defaultOf(field: z.ZodType): unknown {
  const { success, data } = field.safeParse(undefined);
  return success && data !== undefined && field.safeParse(data).success ? data : undefined;
}

function unknownOption(task: AnyTask, name: string, value: unknown): UsageError {
  if (name === "scenarios" || name === "map" || name === "testShare") {
    const flag = name === "testShare" ? "--test-share" : `--${name}`;
    return new UsageError(
      `${flag} ${shown(value)}: the task ${task.name} makes its scenarios itself; one that says \`scenarios: fromFile(...)\` reads them from files`,
    );
  }
  const known = fieldsOf(task).map(([field]) => field);
  const close = nearest(name, known);
  const hint = close ? `; did you mean ${close}?` : known.length > 0 ? `; it has ${known.join(", ")}` : "";
  return new UsageError(`--set ${name}=${shown(value)}: the task ${task.name} has no such option${hint}`);
}

const shown = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/**
 * The task's options, with defaults; paths are absolute.
 *
 * @param layers given values; later layers take precedence
 * @throws UsageError with the option, the value and the accepted values
 */
export function resolveTaskOptions(task: AnyTask, ...layers: readonly PlainOptions[]): PlainOptions {
  const given: PlainOptions = Object.assign({}, ...layers);
  const { shape } = task.options;
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(shape, name)) throw unknownOption(task, name, value);
  }
  const values: Record<string, unknown> = {};
  for (const [name, field] of fieldsOf(task)) {
    const value = given[name] === undefined ? defaultOf(field) : valueFor(field, given[name]);
    if (value === undefined) continue;
    values[name] = isPath(field) && typeof value === "string" ? placeOf(value) : value;
  }
  const parsed = task.options.safeParse(values);
  if (parsed.success) return values;
  const [issue] = parsed.error.issues;
  const name = String(issue?.path[0] ?? "");
  const missing = values[name] === undefined;
  throw new UsageError(
    missing
      ? `the task ${task.name} needs --set ${name}=${acceptedBy(shape[name] as z.ZodType)}`
      : `--set ${name}=${shown(values[name])}: ${issue?.message ?? "not accepted"} (the task ${task.name})`,
  );
}

/** All options passed to a task: its own, and those common to all tasks. */
export function taskOptionsOf(
  task: AnyTask,
  { home, seed }: Pick<Config, "home" | "seed">,
  ...layers: readonly PlainOptions[]
): PlainOptions {
  return { ...resolveTaskOptions(task, ...layers), home, seed };
}

/** Description of the accepted values: "one of easy, hard", "a whole number of at least 1". */
function acceptedBy(field: z.ZodType): string {
  // Transformed values have no JSON Schema, but their input has one.
  const schema = z.toJSONSchema(field, { io: "input", unrepresentable: "any" }) as {
    type?: string;
    enum?: unknown[];
    minimum?: number;
    maximum?: number;
  };
  if (schema.enum) return schema.enum.join("|");
  const { type = "VALUE", minimum: low, maximum: high } = schema;
  if (type === "string") return "TEXT";
  if (type === "boolean") return "true|false";
  if (type !== "integer" && type !== "number") return "VALUE";
  const from = low !== undefined && low > Number.MIN_SAFE_INTEGER ? `${low}` : "";
  const to = high !== undefined && high < Number.MAX_SAFE_INTEGER ? `${high}` : "";
  return from || to ? `${from}..${to}` : "NUMBER";
}

/** The list of a task's options in `--help`. */
export function taskOptionsText(task: AnyTask): string {
  const fields = fieldsOf(task);
  if (fields.length === 0) return `The task ${task.name} has no options of its own (--set).`;
  const rows = fields.map(([name, field]) => {
    const value = defaultOf(field);
    const about = [field.description ?? "", value === undefined ? "" : `(default: ${shown(value)})`];
    return [`  --set ${name}=${acceptedBy(field)}`, about.filter(Boolean).join(" ")] as const;
  });
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return [
    `Options of the task ${task.name}:`,
    ...rows.map(([left, about]) => (left.padEnd(width) + about).trimEnd()),
  ].join("\n");
}
