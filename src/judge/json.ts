/**
 * Finds the one JSON object in a judge's answer: models without a schema write their thoughts, code fences and text around
 * it.
 */
import { NoVerdict } from "./failures.js";

/** Levels of lists and objects at most; a verdict has three. V8 writes JSON of some thousands no more. */
const MOST_LEVELS = 100;

/** Thoughts that some servers leave in the text. They may contain drafts of the answer. */
function withoutThoughts(text: string): string {
  const opening = /<think(?:ing)?>/g;
  const closing = /<\/think(?:ing)?>/g;
  let kept = "";
  let at = 0;
  for (;;) {
    opening.lastIndex = at;
    const open = opening.exec(text);
    closing.lastIndex = opening.lastIndex;
    // Where none is closed any more, the rest need not be searched for each that is opened.
    if (!open || !closing.test(text)) return kept + text.slice(at);
    kept += `${text.slice(at, open.index)} `;
    at = closing.lastIndex;
  }
}

/**
 * The balanced `{...}` at the top level of a text; brackets inside strings do not count.
 *
 * @returns undefined for one in more levels than a verdict can have
 */
function objectsIn(text: string): (string | undefined)[] {
  const found: (string | undefined)[] = [];
  let start = -1;
  let braces = 0;
  let levels = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === "\\") i++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = braces > 0;
    else if (char === "[") deepest = Math.max(deepest, ++levels);
    else if (char === "]") levels--;
    else if (char === "{") {
      if (braces === 0) {
        start = i;
        levels = 0;
        deepest = 0;
      }
      braces++;
      deepest = Math.max(deepest, ++levels);
    } else if (char === "}" && braces > 0) {
      braces--;
      levels--;
      if (braces === 0) found.push(deepest > MOST_LEVELS ? undefined : text.slice(start, i + 1));
    }
  }
  return found;
}

function parse(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The object that has the key `key`. Never chooses between several.
 * @throws NoVerdict not_json
 */
export function objectWith(key: string, written: string): Record<string, unknown> {
  const text = withoutThoughts(written);
  const whole = parse(text);
  // JSON that is a list or a text as a whole holds no answer, whatever stands in it.
  const candidates = whole === undefined || isObject(whole) ? objectsIn(text).map(parse) : [];
  const fitting = candidates.filter(isObject).filter((value) => Object.hasOwn(value, key));
  const [first] = fitting;
  if (!first) throw new NoVerdict("not_json", `there is no JSON object with the key "${key}" in it`);
  const different = new Set(fitting.map((value) => JSON.stringify(value)));
  if (different.size > 1) throw new NoVerdict("not_json", `there are ${different.size} different JSON objects in it`);
  return first;
}
