/** docs/options.md, which `yarn docs` writes. */
import { flagOf, type OptionName, optionNames, options } from "../../src/core/config/config.js";
import { defaultTextFor } from "../../src/core/config/option.js";
import { wrapped } from "../../src/core/util/text.js";
import "../../src/hone/options.js";

/** Every option by heading, made from the schema. */
export function optionsPage(): string {
  const shownDefault = ({ default: value, defaultText }: (typeof options)[OptionName]) => {
    const shown =
      value === undefined
        ? defaultTextFor(defaultText)
        : `\`${Array.isArray(value) ? value.join(",") : String(value)}\``;
    return shown === undefined || shown === "none" ? [] : [`default: ${shown}`];
  };
  const item = (name: OptionName) => {
    const { env, accepts, default: value, flagless, description } = options[name];
    // A flag that is off says enough; the range of a number is in the error of one that is outside.
    const kind = accepts
      .replace(/ (of at least|from) [\d.]+( to [\d.]+)?$/, "")
      .replace("a whole number", "integer")
      .replace(/(^| or )(an?|one or more) /g, "$1");
    const taken = value === false ? [] : [...(kind === "text" ? [] : [kind]), ...shownDefault(options[name])];
    const inBrackets = taken.length === 0 ? "" : ` (${taken.join("; ")})`;
    const text = `- \`${flagless ? env : flagOf(name)}\`${inBrackets}: ${description}`;
    // Markdown takes <think> for a tag.
    return wrapped(text.replaceAll("<", "\\<"), 128).map((line, index) => (index === 0 ? line : `  ${line}`));
  };
  const groups = [...new Set(optionNames.map((name) => options[name].group))];
  return [
    "# Options",
    "",
    ...wrapped(
      "Written by `yarn docs`; do not edit. Strongest first: the flag; the environment variable (of `--sent-before` it is `HONE_SENT_BEFORE`); `hone.config.ts` or `hone.config.json` in the current folder (`sentBefore`); the default. `yarn hone COMMAND --help` shows what is set first, `--help all` everything.",
      128,
    ),
    ...groups.flatMap((group) => [
      "",
      `## ${group}`,
      "",
      ...optionNames.filter((name) => options[name].group === group).flatMap(item),
    ]),
    "",
  ].join("\n");
}
