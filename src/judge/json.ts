/**
 * Finds the one JSON object in a judge's answer: models without a schema write their thoughts, code fences and text around
 * it.
 */
import type { z } from "zod";
import { type Fields, isFields } from "../serve/openai/fields.js";
import { NoVerdict } from "./no-verdict.js";

/** Levels of lists and objects at most; a verdict has three. */
const MOST_LEVELS = 100;

/**
 * Where thoughts begin and end that a server has left in the text, in models' own tags. They may contain drafts of the answer.
 * The channels are those of gpt-oss.
 */
const NAMES = "(?:[a-z]+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)";
const OPENING = `<${NAMES}>|\\[THINK\\]|◁think▷|<unused94>|<\\|(?:begin_of_thought|START_THINKING|thinking)\\|>|<\\|channel\\|>(?:analysis|commentary)`;
const CLOSING = `</${NAMES}>|\\[/THINK\\]|◁/think▷|<unused95>|<\\|(?:end_of_thought|END_THINKING|/thinking)\\|>|<\\|channel\\|>final`;
/** Both, and all that an object can begin with. */
const MARK = `(?<open>${OPENING})|(?<close>${CLOSING})|\\{(?=\\s*["}])`;

/**
 * The objects of a text that are no part of thoughts. Tags inside an object are text that it quotes. Thoughts begin with their first
 * tag and end with the next closing one, whatever they quote; before a closing tag alone all is thoughts, since some templates open
 * them in the prompt. What is opened and never closed are no thoughts.
 */
function objectsIn(text: string): Fields[] {
  let said: Fields[] = [];
  let thought: Fields[] | undefined;
  const mark = new RegExp(MARK, "gi");
  for (let found = mark.exec(text); found; found = mark.exec(text)) {
    if (found.groups?.open) thought ??= [];
    else if (found.groups?.close) {
      if (!thought) said = [];
      thought = undefined;
    } else {
      const { end, levels, isWhole } = extentOf(text, found.index);
      const isDeep = levels > MOST_LEVELS;
      const object = isWhole && !isDeep ? readLoosely(text.slice(found.index, end)) : undefined;
      if (isFields(object)) (thought ?? said).push(object);
      if (isFields(object) || isDeep) mark.lastIndex = end;
    }
  }
  return [...said, ...(thought ?? [])];
}

/** The text of an answer that was cut off, without thoughts that it never closed: those may have drafts of what it would say. */
export function withoutOpenThoughts(text: string): string {
  const mark = new RegExp(`(?<open>${OPENING})|(?<close>${CLOSING})`, "gi");
  let open: number | undefined;
  for (const { index, groups } of text.matchAll(mark)) {
    if (groups?.open) open ??= index;
    else open = undefined;
  }
  return text.slice(0, open);
}

/** A whole text, a bracket, or what else JSON is made of. */
const TOKEN = /\s*("[^"\\]*(?:\\[\s\S][^"\\]*)*"|[{}[\],:]|[-+.\w]+)/y;

/** Where the object that begins there ends, or what cannot be one stops being JSON, and how many levels it has. */
function extentOf(text: string, start: number) {
  const token = new RegExp(TOKEN);
  token.lastIndex = start;
  let end = start;
  let open = 0;
  let levels = 0;
  for (let found = token.exec(text); found; found = token.exec(text)) {
    end = token.lastIndex;
    const sign = found[1] as string;
    if (sign === "{" || sign === "[") levels = Math.max(levels, ++open);
    else if ((sign === "}" || sign === "]") && --open === 0) break;
  }
  return { end, levels, isWhole: open === 0 };
}

/** What stands between texts and is no JSON: a comma before a closing bracket, spaces of other kinds. */
const LOOSE = /("[^"\\]*(?:\\[\s\S][^"\\]*)*")|,(?=\s*[}\]])|[^\S \t\r\n]/g;

/**
 * Reads JSON as it is meant, where that leaves no doubt: with line breaks in texts, escapes that JSON has not (`\(`), and a comma
 * before a closing bracket. Undefined where it is none.
 */
function readLoosely(json: string): unknown {
  const strict = json.replace(LOOSE, (_, quoted: string | undefined) =>
    (quoted ?? "")
      .replace(/\\(["\\/bfnrt]|u[\da-fA-F]{4})?/g, (found, known) => (known ? found : "\\\\"))
      .replace(/\p{Cc}/gu, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
  try {
    return JSON.parse(strict);
  } catch {
    return undefined;
  }
}

/** The object itself, or those that it has as values: models without a schema put theirs into a frame. */
function holders(value: unknown, key: string): Fields[] {
  if (!isFields(value)) return [];
  return Object.hasOwn(value, key) ? [value] : Object.values(value).flatMap((inner) => holders(inner, key));
}

/**
 * The object that has the key `key`. Never chooses between several.
 * @throws NoVerdict not_json
 */
function objectWith(key: string, text: string): Fields {
  const fitting = candidatesIn(text).flatMap((value) => holders(value, key));
  const [first] = fitting;
  if (!first) throw new NoVerdict("not_json", `there is no JSON object with the key "${key}" in it`);
  const different = new Set(fitting.map((value) => JSON.stringify(value)));
  if (different.size > 1) throw new NoVerdict("not_json", `there are ${different.size} different JSON objects in it`);
  return first;
}

function candidatesIn(text: string): Fields[] {
  let whole: unknown;
  try {
    whole = JSON.parse(text);
  } catch {
    // No JSON as a whole, or too deep to be a verdict.
    return objectsIn(text);
  }
  if (typeof whole === "string") return objectsIn(whole);
  // A list holds no answer, whatever stands in it.
  return isFields(whole) ? objectsIn(text) : [];
}

/** The object with this key, as a schema has it. @throws NoVerdict with a message for the judge */
export function readAs<T>(schema: z.ZodType<T>, key: string, text: string): T {
  const parsed = schema.safeParse(objectWith(key, text));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new NoVerdict("wrong_form", `${issue?.path.join(".")}: ${issue?.message}`);
}
