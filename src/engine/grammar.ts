/** Grammars of JSON Schemas in GBNF, llama.cpp's notation, as node-llama-cpp's converter writes them. */
import { HoneError, messageOf } from "../util/index.js";
import { loadedLlama } from "./addon.js";

/** Rules by the name of the first one. */
export interface GrammarRules {
  readonly root: string;
  readonly rules: string;
}

/** The end that the converter gives its root, by which node-llama-cpp's own sampling stops. */
const ENDING = / "\\n\\n\\n\\n" \[\\n\]\*$/;
/** The converter's integers include 1e-5, and its numbers 1e999, which programs read as infinite. */
const NUMBERS: readonly [name: string, rule: string][] = [
  ["integer-number-rule", '"-"? ("0" | [1-9] [0-9]{0,15})'],
  ["fractional-number-rule", '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?'],
];
const CHARACTER = '"\\\\" ["\\\\/bfnrt] | "\\\\u" [0-9a-fA-F]{4}';
/** Texts without `</`, which JSON can write as `<\/`: a closing tag within a text would be taken for the call's own. */
const TAGLESS: readonly [name: string, rule: string][] = [
  ["string-char-rule", `[^"\\\\<\\x7F\\x00-\\x1F] | ${CHARACTER}`],
  ["string-rule", '"\\"" (string-char-rule | "<"+ string-behind-rule)* "<"* "\\""'],
];
const BEHIND = `string-behind-rule ::= [^"\\\\</\\x7F\\x00-\\x1F] | ${CHARACTER}`;
/** Literal texts, character classes and the names of rules. */
const PIECES = /"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|[A-Za-z][\w-]*/g;

/**
 * The rules of the JSON texts of a schema. The converter knows few keywords and leaves out the others: the caller checks
 * them.
 *
 * @param prefix for the names of the rules
 * @param tagless whether texts are to hold no closing tag
 * @throws HoneError when it cannot be converted
 */
export async function grammarRules(schema: object, prefix: string, tagless = false): Promise<GrammarRules> {
  let written: string;
  try {
    const llama = await loadedLlama();
    written = (await llama.createGrammarForJsonSchema(schema)).grammar;
  } catch (error) {
    throw new HoneError(`the schema cannot be made into a grammar: ${messageOf(error)}`, { cause: error });
  }
  const [first = "", ...others] = written.split("\n");
  if (!ENDING.test(first)) throw new HoneError("node-llama-cpp writes grammars in a form that hone does not know");
  const own = [...NUMBERS, ...(tagless ? TAGLESS : [])];
  const lines = [first.replace(ENDING, ""), ...others].map((line) => {
    const found = own.find(([name]) => line.startsWith(`${name} ::= `));
    return found ? found.join(" ::= ") : line;
  });
  const rules = [...lines, ...(tagless ? [BEHIND] : [])].join("\n");
  const named = rules.replace(PIECES, (piece) => {
    if (piece.startsWith("[")) return piece;
    if (!piece.startsWith('"')) return `${prefix}${piece}`;
    return tagless ? piece.replaceAll("</", "<\\\\/") : piece;
  });
  return { root: `${prefix}root`, rules: named };
}
