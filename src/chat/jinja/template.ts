/** A chat template, rendered as transformers renders it, or refused with the reason. */
import { parse, tokenize } from "@huggingface/jinja";
import { Interpreter, outermost, Scope } from "./interpreter.js";
import { type Body, bodyOf, hasChains } from "./syntax.js";
import { asValue, Callable, text } from "./values.js";

/** A function for templates, of texts and to a text: `strftime_now`. */
export type TemplateFunction = (...args: string[]) => string;

/**
 * Jinja's `lstrip_blocks` and `trim_blocks`: nothing is written of the spaces before a block that begins a line, and of
 * the line's end behind it. The parser's own options take `{-` and `-}` in plain text for blocks too, and know line feeds
 * alone.
 */
const withoutBlockLines = (source: string) =>
  source
    .replace(/\r\n?/g, "\n")
    .replace(/^[ \t]+(?=\{[#%])/gm, "")
    .replace(/(?<=[#%]\})\n/g, "");

export class JinjaTemplate {
  readonly #body: Body;
  readonly #interpreter: Interpreter;

  /** @throws Error in one line when it cannot be parsed */
  constructor(source: string) {
    const tokens = tokenize(withoutBlockLines(source));
    this.#interpreter = new Interpreter(hasChains(tokens));
    this.#body = bodyOf(parse(tokens));
  }

  /**
   * @param variables plain data: whole numbers are Python's int, others float, undefined fields are left out
   * @throws TemplateError in one line where transformers raises, and for what hone does not render as it does
   */
  render(
    variables: Readonly<Record<string, unknown>>,
    functions: Readonly<Record<string, TemplateFunction>> = {},
  ): string {
    const all = new Scope(outermost());
    for (const [name, run] of Object.entries(functions)) {
      all.set(name, new Callable(name, (args) => run(...args.map(text))));
    }
    for (const [name, value] of Object.entries(variables)) if (value !== undefined) all.set(name, asValue(value));
    return this.#interpreter.run(this.#body, all);
  }
}
