/** JSON with comments and trailing commas, as editors write it. */

/** A complete string, a comment, or a comma followed only by space and comments before a closing bracket. */
const parts = /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\/|,(?=(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*[}\]])/g;

/** @throws SyntaxError as JSON.parse */
export function parseJsonc(text: string): unknown {
  return JSON.parse(text.replace(/^\uFEFF/, "").replace(parts, (_, string?: string) => string ?? ""));
}
