/** The definition of an option, and functions that declare one in a room's `*-options.ts`, a line each. */
import { z } from "zod";
import { type BySize, bySizeText } from "./sizes.js";

/** How text from a flag or a variable becomes a value, which determines its type in the schema. */
export type OptionKind = "text" | "number" | "flag" | "list" | "words" | "pairs" | "texts";

/** A default in words: for every command, or by command, where `other` is that of the commands that are not named. */
export type DefaultText = string | ({ readonly other: string } & Readonly<Record<string, string>>);

/** The default of one command; without a command those of all: "the model's name; eval: the newest run". */
export function defaultTextFor(text: DefaultText | undefined, command?: string): string | undefined {
  if (text === undefined || typeof text === "string") return text;
  if (command !== undefined) return text[command] ?? text.other;
  const { other, ...named } = text;
  return [other, ...Object.entries(named).map(([name, its]) => `${name}: ${its}`)].join("; ");
}

/** What a run does with an option: it keeps both kinds; with another value of an "identity" it would be another run. */
export type RunUse = "identity" | "changeable";

/** Functions of the library that take an option, besides `trainRun`, which takes those of `train`. */
export type LibraryUse = "model" | "ruler";

export interface Option<T = unknown> {
  readonly kind: OptionKind;
  readonly schema: z.ZodType<T>;
  /** Its heading in help and in docs/options.md. */
  readonly group: string;
  /** For error lines and the table: "a whole number from 1 to 10". */
  readonly accepts: string;
  readonly description: string;
  /** Environment variable. */
  readonly env: string;
  /** Default value; undefined when the option may stay unset. */
  readonly default: T | undefined;
  /** The default, when it stays unset. */
  readonly defaultText: DefaultText | undefined;
  /** The default in training, where it depends on the model's size. */
  readonly bySize: BySize<T> | undefined;
  /** Commands that take it. */
  readonly commands: readonly string[] | "every";
  /** Commands whose `--help` shows it among the options that are set first. */
  readonly first: readonly string[];
  /** Undefined where a run keeps no value. */
  readonly run: RunUse | undefined;
  /** Whether the model or other options determine a run's value where none is given, so that a run always has one. */
  readonly determined: boolean;
  /** Whether it may name a file: a run keeps the absolute path. */
  readonly file: boolean;
  readonly library: readonly LibraryUse[];
  /** Whether it is about the output of a command, so that a program has no use for it. */
  readonly ofOutput: boolean;
  /** Never shown, not even in an error message. */
  readonly secret: boolean;
  /** Of the machine, not of a command: a variable or the config file gives it, no flag. */
  readonly flagless: boolean;
}

/** Without `commands` it is taken by those of the group. */
interface About<T>
  extends Partial<Omit<Option<T>, "kind" | "schema" | "group" | "description" | "bySize" | "defaultText">> {
  bySize?: BySize<T>;
  /** A function is given the text of `bySize`, which alone is the text without it. */
  defaultText?: DefaultText | ((bySize: string) => DefaultText);
}

/** What holds of an option of which nothing else is said. */
const UNSAID = {
  group: "",
  env: "",
  default: undefined,
  bySize: undefined,
  first: [],
  run: undefined,
  determined: false,
  file: false,
  library: [],
  ofOutput: false,
  secret: false,
  flagless: false,
} satisfies Partial<Option>;

/** Its literal types say which commands and functions take the option, and whether it is always present. */
type Given<T, A extends About<T>> = Omit<Option<T>, "library"> &
  (A extends { default: T } ? { readonly default: T } : unknown) &
  (A extends { bySize: infer S } ? { readonly bySize: S } : unknown) &
  (A extends { commands: infer C } ? { readonly ownCommands: C } : unknown) &
  (A extends { run: infer R } ? { readonly run: R } : { readonly run: undefined }) &
  (A extends { determined: true } ? { readonly determined: true } : { readonly determined: false }) &
  (A extends { library: infer L } ? { readonly library: L } : { readonly library: readonly [] }) &
  (A extends { ofOutput: true } ? { readonly ofOutput: true } : { readonly ofOutput: false });

function option<T, A extends About<T>>(
  kind: OptionKind,
  schema: z.ZodType<T>,
  accepts: string,
  description: string,
  about: A,
): Given<T, A> {
  const { bySize, defaultText, commands } = about;
  const ofSize = bySize && bySizeText(bySize);
  return {
    ...UNSAID,
    accepts,
    ...about,
    kind,
    schema,
    description,
    defaultText: typeof defaultText === "function" ? defaultText(ofSize ?? "") : (defaultText ?? ofSize),
    commands: [],
    ownCommands: commands,
  } as unknown as Given<T, A>;
}

export const text = <const A extends About<string>>(description: string, about: A = {} as A) =>
  option("text", z.string().min(1), "text", description, about);

export const choice = <const C extends readonly [string, ...string[]], const A extends About<C[number]>>(
  choices: C,
  description: string,
  about: A = {} as A,
) => option<C[number], A>("text", z.enum(choices), choices.join(", "), description, about);

export const flag = <const A extends About<boolean>>(description: string, about: A = {} as A) =>
  option("flag", z.boolean(), "true or false", description, about);

export const list = <const A extends About<string[]>>(description: string, about: A = {} as A) =>
  option("list", z.array(z.string().min(1)), "one or more values", description, about);

/** As {@link list}, but commas do not separate values. */
export const words = <const A extends About<string[]>>(description: string, about: A = {} as A) =>
  option("words", z.array(z.string()), "one or more words", description, about);

const record = z.record(z.string().min(1), z.json()) as z.ZodType<Record<string, unknown>>;

/** `NAME=VALUE`, given any number of times; a value is JSON, or text if it is not JSON. An object in a config file. */
export const pairs = <const A extends About<Record<string, unknown>>>(description: string, about: A = {} as A) =>
  option("pairs", record, "NAME=VALUE, where VALUE is JSON or text", description, about);

/** As {@link pairs}, but values stay text, whose type the reader determines. */
export const texts = <const A extends About<Record<string, unknown>>>(description: string, about: A = {} as A) =>
  option("texts", record, "NAME=VALUE", description, about);

export const whole = <const A extends About<number>>(
  low: number,
  high: number,
  description: string,
  about: A = {} as A,
) =>
  option(
    "number",
    z.number().int().min(low).max(high),
    high === Number.MAX_SAFE_INTEGER ? `a whole number of at least ${low}` : `a whole number from ${low} to ${high}`,
    description,
    about,
  );

export const real = <const A extends About<number>>(
  low: number,
  high: number,
  description: string,
  about: A = {} as A,
) => option("number", z.number().min(low).max(high), `a number from ${low} to ${high}`, description, about);

const RANGE = /^(\d*\.?\d+)\.\.(\d*\.?\d+)$/;

/** "0.1..0.9" */
export function readRange(text: string): { readonly low: number; readonly high: number } {
  const [, low, high] = RANGE.exec(text) ?? [];
  return { low: Number(low), high: Number(high) };
}

/** Two shares, the lower one first; both ends belong to it. */
export const shares = <const A extends About<string>>(description: string, about: A = {} as A) =>
  option(
    "text",
    z.string().refine((text) => {
      const { low, high } = readRange(text);
      return low >= 0 && low <= high && high <= 1;
    }),
    "two numbers from 0 to 1, as 0.1..0.9",
    description,
    about,
  );

const SIZE = /^(\d+(?:\.\d+)?)([KMG])$/;

/** Bytes of "1900M". */
export function readSize(text: string): number {
  const [, number, unit] = SIZE.exec(text) ?? [];
  return Math.floor(Number(number) * { K: 1e3, M: 1e6, G: 1e9 }[unit as "K" | "M" | "G"]);
}

/** A number of bytes, at least one. */
export const size = <const A extends About<string>>(description: string, about: A = {} as A) =>
  option(
    "text",
    z.string().refine((text) => SIZE.test(text) && readSize(text) > 0),
    "a size, as 700M or 4G",
    description,
    about,
  );

export const date = (description: string) => option("text", z.iso.date(), "a date as YYYY-MM-DD", description, {});

type CommandsOf<O, C> = O extends { readonly ownCommands: infer Own } ? Own : C;

/** Options under a heading, with the commands that take those of them which name none. */
export function inGroup<
  const C extends readonly string[] | "every",
  const T extends Readonly<Record<string, Option & { readonly ownCommands?: readonly string[] | "every" }>>,
>(
  group: string,
  commands: C,
  options: T,
): { readonly [N in keyof T]: Omit<T[N], "commands" | "ownCommands"> & { readonly commands: CommandsOf<T[N], C> } } {
  return Object.fromEntries(
    Object.entries(options).map(([name, { ownCommands, ...one }]) => [
      name,
      { ...one, group, commands: ownCommands ?? commands },
    ]),
  ) as ReturnType<typeof inGroup<C, T>>;
}
