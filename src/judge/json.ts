/**
 * Finds the one JSON object in a judge's answer: models without a schema write their thoughts, code fences and text around
 * it.
 */
import { NoVerdict } from "./failures.js";

/** Thoughts that some servers leave in the text. They may contain drafts of the answer. */
function withoutThoughts(text: string): string {
  return text.replace(/<think(?:ing)?>[\s\S]*?<\/think(?:ing)?>/g, " ");
}

/** Ends of the balanced `{...}` at the top level of a text; braces inside strings do not count. */
function objectsIn(text: string): string[] {
  const found: string[] = [];
  let start = -1;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === "\\") i++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = depth > 0;
    else if (char === "{") {
      if (depth === 0) start = i;
      depth++;
    } else if (char === "}" && depth > 0) {
      depth--;
      if (depth === 0) found.push(text.slice(start, i + 1));
    }
  }
  return found;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The object that has the key `key`. Never chooses between several.
 * @throws NoVerdict not_json
 */
export function objectWith(key: string, written: string): Record<string, unknown> {
  const text = withoutThoughts(written);
  const whole = parse(text);
  const candidates = whole === undefined ? objectsIn(text).map(parse) : [whole];
  const fitting = candidates.filter(
    (value): value is Record<string, unknown> =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key),
  );
  const [first] = fitting;
  if (!first) throw new NoVerdict("not_json", `there is no JSON object with the key "${key}" in it`);
  const different = new Set(fitting.map((value) => JSON.stringify(value)));
  if (different.size > 1) throw new NoVerdict("not_json", `there are ${different.size} different JSON objects in it`);
  return first;
}
