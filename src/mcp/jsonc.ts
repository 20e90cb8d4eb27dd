/** JSON as editors keep it: with comments, and with commas before closing brackets. */

/** A string as a whole, a comment, or a comma with nothing but space and comments up to a closing bracket. */
const parts = /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\/|,(?=(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*[}\]])/g;

/** @throws SyntaxError as JSON.parse */
export function parseJsonc(text: string): unknown {
  return JSON.parse(text.replace(/^\uFEFF/, "").replace(parts, (_, string?: string) => string ?? ""));
}
