/**
 * Reads the options of options.ts from flags, environment, `hone.config.{ts,json}` and defaults (the strongest first),
 * through one schema. It also makes docs/options.md.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { HoneError, importScript, messageOf, nearest, UsageError } from "../util/index.js";
import { defaultTextFor, type Option, type OptionKind } from "./option.js";
import { definitions } from "./options.js";
import { renamed, withPresentNames } from "./renamed.js";

export type OptionName = keyof typeof definitions;

type ValueOf<O> = O extends { readonly default: infer D extends string | number | boolean | string[] }
  ? O extends Option<infer T>
    ? [D] extends [undefined]
      ? T | undefined
      : T
    : never
  : O extends Option<infer T>
    ? T | undefined
    : never;

/** The resolved values of options by their definitions. */
export type ConfigOf<D> = { readonly [N in keyof D]: ValueOf<D[N]> };

/** The resolved values of the options `K`. */
export type Config<K extends OptionName = OptionName> = ConfigOf<Pick<typeof definitions, K>>;

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The flag of an option, also of one by an old name: `sentBefore` is `--sent-before`. */
export const flagOf = (name: string) => `--${kebab(name)}`;

const variableOf = (name: string) => `HONE_${kebab(name).replaceAll("-", "_").toUpperCase()}`;

const withVariables = (own: Readonly<Record<string, Option>>) =>
  Object.fromEntries(
    Object.entries(own).map(([name, definition]) => [name, { ...definition, env: definition.env || variableOf(name) }]),
  );

/** All options, with their environment variables filled in; those of rooms above too (`ownOptions`). */
export const options: Readonly<Record<OptionName, Option>> = withVariables(definitions) as Record<OptionName, Option>;

export const optionNames = Object.keys(options) as OptionName[];

export const isOwn = (name: string): boolean => !Object.hasOwn(definitions, name);

/**
 * Options that commands of a room above have of their own: read, shown and documented as hone's are, once the room is loaded.
 *
 * @throws TypeError when a name is taken
 */
export function ownOptions<const D extends Readonly<Record<string, Option>>>(own: D): D {
  const taken = Object.keys(own).find((name) => Object.hasOwn(options, name));
  if (taken) throw new TypeError(`there is an option ${taken} already`);
  Object.assign(options, withVariables(own));
  optionNames.push(...(Object.keys(own) as OptionName[]));
  return own;
}

function fromText(kind: OptionKind, value: string): unknown {
  if (kind === "number") return value.trim() === "" || Number.isNaN(Number(value)) ? value : Number(value);
  if (kind === "list") return value.split(",").map((item) => item.trim());
  if (kind === "flag") {
    if (/^(1|true|yes|on)$/i.test(value)) return true;
    if (/^(0|false|no|off|)$/i.test(value)) return false;
  }
  return value;
}

/** `NAME=VALUE`s as an object; other texts are left for the schema to refuse. */
function fromPairs(raw: unknown, read: (text: string) => unknown): unknown {
  const given = Array.isArray(raw) ? raw : [raw];
  const pairs = given.map((one) => (typeof one === "string" ? /^([^=]+)=(.*)$/s.exec(one) : null));
  if (pairs.includes(null)) return raw;
  return Object.fromEntries(
    pairs.map((pair): [string, unknown] => {
      const [, name = "", text = ""] = pair ?? [];
      return [name.trim(), read(text)];
    }),
  );
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Text needs no quotation marks.
    return text;
  }
}

/** Never shown, not even in an error message. */
const secrets: ReadonlySet<string> = new Set(["hfToken", "agentKey", "judgeKey"] satisfies OptionName[]);

/** Checks one value. `where` names its source, as the user wrote it. */
function check(name: OptionName, raw: unknown, where: string): unknown {
  const { schema, kind, accepts } = options[name];
  const ofPairs = kind === "pairs" || kind === "texts";
  if (Array.isArray(raw) && kind !== "list" && kind !== "words" && !ofPairs)
    throw new UsageError(`${where} is given ${raw.length} times; give it once`);
  let value = raw;
  if (ofPairs) value = fromPairs(raw, kind === "pairs" ? jsonOrText : (text) => text);
  else if (kind === "words" && typeof raw === "string") value = [raw];
  else if (typeof raw === "string") value = fromText(kind, raw);
  else if (kind === "list" && Array.isArray(raw)) {
    value = raw.flatMap((item) => (typeof item === "string" ? item.split(",").map((part) => part.trim()) : [item]));
  }
  const parsed = schema.safeParse(value);
  // Sorted, whatever the order given: a run compares them.
  if (parsed.success && ofPairs) {
    return Object.fromEntries(Object.entries(parsed.data as object).sort(([a], [b]) => (a < b ? -1 : 1)));
  }
  if (!parsed.success) {
    const shown = secrets.has(name) ? "what was given" : JSON.stringify(raw);
    throw new UsageError(`${where}: ${shown} is not accepted; give ${accepts}`);
  }
  return parsed.data;
}

function unknownKey(where: string, key: string, known: readonly string[]): UsageError {
  const close = nearest(key, known);
  const hint = close ? `did you mean ${close}?` : `accepted are ${known.join(", ")}`;
  return new UsageError(`${where}: ${key} is not an option; ${hint}`);
}

async function readConfigFile(folder: string): Promise<{ file: string; values: Record<string, unknown> } | undefined> {
  const found = ["hone.config.ts", "hone.config.json"].map((name) => join(folder, name)).filter(existsSync);
  const file = found[0];
  if (!file) return undefined;
  if (found.length > 1) throw new UsageError(`both ${found.join(" and ")} exist; keep one of them`);
  let values: unknown;
  try {
    values = file.endsWith(".json") ? JSON.parse(readFileSync(file, "utf8")) : await importScript(resolve(file));
  } catch (error) {
    throw new HoneError(`${file} could not be read: ${messageOf(error).split("\n")[0]}`, { cause: error });
  }
  if (typeof values !== "object" || values === null || Array.isArray(values)) {
    throw new UsageError(`${file}: expected an object of options`);
  }
  return { file, values: values as Record<string, unknown> };
}

export interface ConfigSources {
  /** Values of flags by option name; absent or undefined when not given. */
  flags?: Readonly<Record<string, unknown>>;
  env?: Readonly<Record<string, string | undefined>>;
  /** Folder of hone.config.{ts,json}; null reads none. */
  folder?: string | null;
}

/** Values by option, without defaults. */
export type GivenOptions = Readonly<Partial<Record<OptionName, unknown>>>;

/**
 * The given options: flags, then environment, then config file. Every value is checked, also those of options of other
 * commands in the file or the environment.
 *
 * @throws UsageError with the key, the value and what is accepted
 */
export async function readGiven(sources: ConfigSources): Promise<GivenOptions> {
  const { flags = {}, env = {}, folder = "." } = sources;
  const values: Partial<Record<OptionName, unknown>> = {};

  const file = folder === null ? undefined : await readConfigFile(folder);
  for (const [key, value] of Object.entries(withPresentNames(file?.values ?? {}, `${file?.file}: `))) {
    if (!Object.hasOwn(options, key)) throw unknownKey(file?.file ?? "", key, optionNames);
    if (value !== undefined) values[key as OptionName] = check(key as OptionName, value, `${file?.file}: ${key}`);
  }

  const ofEnv = new Map<string, string>([
    ...optionNames.map((name) => [options[name].env, name] as const),
    ...Object.keys(renamed).map((name) => [variableOf(name), name] as const),
  ]);
  const fromEnv: Record<string, string> = {};
  for (const [key, value] of Object.entries(env)) {
    const name = ofEnv.get(key);
    if (name === undefined && key.startsWith("HONE_")) {
      throw unknownKey(
        "environment",
        key,
        optionNames.map((one) => options[one].env),
      );
    }
    if (name !== undefined && value !== undefined && (value !== "" || options[name as OptionName]?.kind === "flag"))
      fromEnv[name] = value;
  }
  const variable = (name: string) => options[name as OptionName]?.env ?? variableOf(name);
  for (const [name, value] of Object.entries(withPresentNames(fromEnv, "", variable)))
    values[name as OptionName] = check(name as OptionName, value, variable(name));

  for (const [key, value] of Object.entries(withPresentNames(flags, "", flagOf))) {
    if (value !== undefined) values[key as OptionName] = check(key as OptionName, value, flagOf(key));
  }

  return values;
}

/**
 * Options given by a program, checked, with those of Hugging Face's variables (HF_TOKEN, HF_HOME, ...): HONE_ variables and
 * config files have no effect on a program.
 *
 * @throws UsageError with the key, the value and what is accepted
 */
export async function givenByProgram(
  values: Readonly<Record<string, unknown>>,
  names: readonly OptionName[],
): Promise<GivenOptions> {
  const present = withPresentNames(values, "options: ");
  const unknown = Object.keys(present).find((key) => !(names as readonly string[]).includes(key));
  if (unknown !== undefined) throw unknownKey("options", unknown, names);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("HF_")));
  return readGiven({ flags: present, env, folder: null });
}

/** Those of the given options that `names` has. */
export function chosen<K extends OptionName>(given: GivenOptions, names: readonly K[]): Partial<Config<K>> {
  const found = names.filter((name) => given[name] !== undefined);
  // Checked when it was read.
  return Object.fromEntries(found.map((name) => [name, given[name]])) as Partial<Config<K>>;
}

/** Fills in defaults. */
export function withDefaults<K extends OptionName>(names: readonly K[], given: GivenOptions): Config<K> {
  return Object.fromEntries(names.map((name) => [name, given[name] ?? options[name].default])) as Config<K>;
}

/** The values of the options `names`: flags, then environment, then config file, then defaults. Throws as `readGiven`. */
export async function loadConfig<K extends OptionName>(
  names: readonly K[],
  sources: ConfigSources,
): Promise<Config<K>> {
  return withDefaults(names, await readGiven(sources));
}

/** docs/options.md: a table of every option by heading, made from the schema. */
export function optionsTable(): string {
  const cell = (value: string) => value.replaceAll("|", "\\|");
  const row = (name: OptionName) => {
    const { env, accepts, default: value, defaultText, description } = options[name];
    const shown =
      value !== undefined
        ? `\`${Array.isArray(value) ? value.join(",") : String(value)}\``
        : (defaultTextFor(defaultText) ?? "–");
    return `| \`${flagOf(name)}\` | \`${env}\` | ${cell(accepts)} | ${cell(shown)} | ${cell(description)} |`;
  };
  const groups = [...new Set(optionNames.map((name) => options[name].group))];
  return [
    "# Options",
    "",
    "Written by `yarn docs` from `src/config/options.ts` (and `options.ts` of tasks with commands); do not edit.",
    "Strongest first: flag, environment variable,",
    "`hone.config.ts` or `hone.config.json` in the current folder (keys in camelCase: `--sent-before` is `sentBefore`),",
    "default. `yarn hone COMMAND --help` shows the options of a command that are set first, `--help all` every one.",
    ...groups.flatMap((group) => [
      "",
      `## ${group}`,
      "",
      "| flag | variable | accepts | default | meaning |",
      "| --- | --- | --- | --- | --- |",
      ...optionNames.filter((name) => options[name].group === group).map(row),
    ]),
    "",
  ].join("\n");
}
