/** How arguments reach a function's parameters: by place or by name, as in Python. */
import { fail, type Keywords, type Value } from "./values.js";

/** A filter, or a method of a value; it throws TemplateError for arguments that it does not take. */
export type Operation<Of> = (name: string, of: Of, args: readonly Value[], keywords: Keywords) => Value;

/** @param parameters their names; those with a "?" may be left out */
export const operation =
  <Of>(parameters: readonly string[], run: (of: Of, ...args: (Value | undefined)[]) => Value): Operation<Of> =>
  (name, of, args, keywords) => {
    if (args.length > parameters.length) return fail(`${name} takes at most ${parameters.length} arguments`);
    const all: (Value | undefined)[] = [...args];
    const names = parameters.map((one) => one.replace("?", ""));
    for (const [key, value] of keywords) {
      const at = names.indexOf(key);
      if (at < 0 || all[at] !== undefined) return fail(`${name} takes no argument ${key} here`);
      all[at] = value;
    }
    const missing = parameters.findIndex((one, at) => !one.endsWith("?") && all[at] === undefined);
    if (missing >= 0) return fail(`${name} lacks the argument ${parameters[missing]}`);
    return run(of, ...all);
  };
