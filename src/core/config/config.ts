/**
 * Options: rooms declare theirs, and here they are one table with one type. They are read from flags, environment,
 * `hone.config.{ts,json}` and defaults (the strongest first), through one schema.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { HoneError, messageOf, UsageError } from "../util/errors.js";
import { jsonOrText } from "../util/json.js";
import { nearest } from "../util/nearest.js";
import { importScript } from "../util/user-file.js";
import type { LibraryUse, Option, OptionKind, RunUse } from "./option.js";
import { removedFlags, removedOption } from "./removed.js";
import { type BySize, sizeOf } from "./sizes.js";

/** Every option by its name. Each room adds its own: by {@link declareOptions}, and to this interface by `declare module`. */
// biome-ignore lint/suspicious/noEmptyInterface: rooms add to it
export interface OptionTable {}

type Definitions = OptionTable;

/** In the order in which rooms have declared them, which is that of help and docs/options.md. */
const definitions: Record<string, Option> = {};

export type OptionName = keyof Definitions;

type Takes<C, L> = L extends "every"
  ? true
  : L extends readonly (infer Name)[]
    ? C extends Name
      ? true
      : false
    : false;

/** Names of the options that a command takes. */
export type OptionOf<C extends string> = {
  [N in OptionName]: true extends Takes<C, Definitions[N]["commands"]> ? N : never;
}[OptionName];

/** Those of them that a program can give. */
export type ProgramOption<C extends string> = {
  [N in OptionOf<C>]: Definitions[N]["ofOutput"] extends true ? never : N;
}[OptionOf<C>];

/** Names of the options that a run keeps. */
export type KeptOption<U extends RunUse = RunUse> = {
  [N in OptionName]: Definitions[N]["run"] extends U ? N : never;
}[OptionName];

/** Names of the options whose default depends on the model's size. */
export type SizedOption = {
  [N in OptionName]: Definitions[N] extends { readonly bySize: BySize<unknown> } ? N : never;
}[OptionName];

/** Names of the options that have a value in every run: by the model's size, by the model, or by other options. */
export type DeterminedOption =
  | SizedOption
  | { [N in OptionName]: Definitions[N]["determined"] extends true ? N : never }[OptionName];

/** Names of the options that a function of the library takes. */
export type LibraryOption<U extends LibraryUse> = {
  [N in OptionName]: true extends Takes<U, Definitions[N]["library"]> ? N : never;
}[OptionName];

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
export type Config<K extends OptionName = OptionName> = ConfigOf<Pick<Definitions, K>>;

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The flag of an option: `sentBefore` is `--sent-before`. */
export const flagOf = (name: string) => `--${kebab(name)}`;

const variableOf = (name: string) => `HONE_${kebab(name).replaceAll("-", "_").toUpperCase()}`;

const withVariables = (own: Readonly<Record<string, Option>>) =>
  Object.fromEntries(
    Object.entries(own).map(([name, definition]) => [name, { ...definition, env: definition.env || variableOf(name) }]),
  );

/** All options, with their environment variables filled in; those of rooms above too (`ownOptions`). */
export const options = {} as Readonly<Record<OptionName, Option>>;

export const optionNames: OptionName[] = [];

const isTaken = (by: string, list: readonly string[] | "every") => list === "every" || list.includes(by);

const namesWhere = (holds: (option: Option) => boolean) =>
  (Object.keys(definitions) as OptionName[]).filter((name) => holds(definitions[name] as Option));

/** The options that a command takes, without those of its own room. */
export const optionsOf = <const C extends string>(command: C): readonly OptionOf<C>[] =>
  namesWhere(({ commands }) => isTaken(command, commands)) as OptionOf<C>[];

/** Those of them that a program can give. */
export const programOptions = <const C extends string>(command: C): readonly ProgramOption<C>[] =>
  namesWhere(({ commands, ofOutput }) => isTaken(command, commands) && !ofOutput) as ProgramOption<C>[];

/** The options that help shows first, of a command that has such. */
export const firstOptionsOf = (command: string): readonly OptionName[] =>
  namesWhere(({ first }) => first.includes(command));

/** The options that a run keeps. */
export const keptOptions = <const U extends RunUse = RunUse>(use?: U): readonly KeptOption<U>[] =>
  namesWhere(({ run }) => run !== undefined && (use === undefined || run === use)) as KeptOption<U>[];

/** The options that may name a file. */
export const fileOptions = (): readonly OptionName[] => namesWhere(({ file }) => file);

/** The options that a function of the library takes. */
export const libraryOptions = <const U extends LibraryUse>(use: U): readonly LibraryOption<U>[] =>
  namesWhere(({ library }) => library.includes(use)) as LibraryOption<U>[];

/** The default of an option in training, by the model's number of parameters. */
export function sizedDefault<N extends SizedOption>(name: N, parameters: number): NonNullable<Config[N]> {
  const { tiny, small, large = small } = (definitions[name] as Option).bySize as BySize<unknown>;
  return { tiny, small, large }[sizeOf(parameters)] as NonNullable<Config[N]>;
}

/** All such defaults. */
export function sizedDefaults(parameters: number): { readonly [N in SizedOption]: NonNullable<Config[N]> } {
  const names = namesWhere(({ bySize }) => bySize !== undefined) as SizedOption[];
  return Object.fromEntries(names.map((name) => [name, sizedDefault(name, parameters)])) as ReturnType<
    typeof sizedDefaults
  >;
}

export const isOwn = (name: string): boolean => !Object.hasOwn(definitions, name);

function add(own: Readonly<Record<string, Option>>): void {
  const taken = Object.keys(own).find((name) => Object.hasOwn(options, name));
  if (taken) throw new TypeError(`there is an option ${taken} already`);
  Object.assign(options, withVariables(own));
  optionNames.push(...(Object.keys(own) as OptionName[]));
}

/**
 * Declares options of a room, when it is loaded: `trainer/options.ts` loads all that a training takes, `hone/options.ts` all.
 *
 * @throws TypeError when a name is taken
 */
export function declareOptions<const D extends Readonly<Record<string, Option>>>(own: D): D {
  add(own);
  Object.assign(definitions, own);
  return own;
}

/**
 * Options that commands of a task have of their own, which no other command takes: read, shown and documented as hone's are, once
 * the task's commands are loaded.
 *
 * @throws TypeError when a name is taken
 */
export function ownOptions<const D extends Readonly<Record<string, Option>>>(own: D): D {
  add(own);
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

/** Checks one value. `where` names its source, as the user wrote it. */
function check(name: OptionName, raw: unknown, where: string): unknown {
  const { schema, kind, accepts, secret } = options[name];
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
    const shown = secret ? "what was given" : JSON.stringify(raw);
    throw new UsageError(`${where}: ${shown} is not accepted; give ${accepts}`);
  }
  return parsed.data;
}

function unknownKey(where: string, key: string, known: readonly string[]): UsageError {
  const removed = Object.keys(removedFlags).find((name) => key === name || key === variableOf(name));
  const refusal = removed && removedOption(removed, `${where}: ${key}`);
  if (refusal) return refusal;
  const close = nearest(key, known);
  const hint = close ? `did you mean ${close}?` : "docs/options.md lists them all";
  return new UsageError(`${where}: ${key} is not an option; ${hint}`);
}

async function readConfigFile(folder: string): Promise<{ file: string; values: Record<string, unknown> } | undefined> {
  const found = ["hone.config.ts", "hone.config.json"].map((name) => join(folder, name)).filter(existsSync);
  const file = found[0];
  if (!file) return undefined;
  if (found.length > 1) throw new UsageError(`both ${found.join(" and ")} exist; keep one of them`);
  let values: unknown;
  try {
    // trim: some editors write a byte order mark at the start.
    values = file.endsWith(".json") ? JSON.parse(readFileSync(file, "utf8").trim()) : await importScript(resolve(file));
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
  for (const [key, value] of Object.entries(file?.values ?? {})) {
    if (!Object.hasOwn(options, key)) throw unknownKey(file?.file ?? "", key, optionNames);
    if (value !== undefined) values[key as OptionName] = check(key as OptionName, value, `${file?.file}: ${key}`);
  }

  const ofEnv = new Map(optionNames.map((name) => [options[name].env, name] as const));
  for (const [key, value] of Object.entries(env)) {
    const name = ofEnv.get(key);
    if (name === undefined && key.startsWith("HONE_")) throw unknownKey("environment", key, [...ofEnv.keys()]);
    if (name !== undefined && value !== undefined && (value !== "" || options[name].kind === "flag"))
      values[name] = check(name, value, key);
  }

  for (const [key, value] of Object.entries(flags)) {
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
  if (typeof values !== "object" || values === null) throw new UsageError("options must be an object");
  const unknown = Object.keys(values).find((key) => !(names as readonly string[]).includes(key));
  if (unknown !== undefined) throw unknownKey("options", unknown, names);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("HF_")));
  return readGiven({ flags: values, env, folder: null });
}

/** Those of the given options that `names` has. */
export function givenOf<K extends OptionName>(given: GivenOptions, names: readonly K[]): Partial<Config<K>> {
  const found = names.filter((name) => given[name] !== undefined);
  // Checked when it was read.
  return Object.fromEntries(found.map((name) => [name, given[name]])) as Partial<Config<K>>;
}

/** Fills in defaults. */
export function withDefaults<K extends OptionName>(names: readonly K[], given: GivenOptions): Config<K> {
  return Object.fromEntries(names.map((name) => [name, given[name] ?? options[name].default])) as Config<K>;
}
