/** Common parts of rewards: whether the answer matches, and whether it has the right form. Each scores 1 or 0. */
import type { z } from "zod";
import type { FinishedRollout, Scenario } from "../../core/task/task.js";
import { toJson } from "../../core/util/json.js";

/** Selects the checked value; default the answer, see {@link answerOf}. */
export type Given = (rollout: FinishedRollout) => unknown;

/**
 * The model's answer: the text, or the only argument of the final tool, or a named argument; undefined without an
 * answer.
 */
export function answerOf(field?: string): Given {
  return ({ answer }) => {
    if (answer === undefined) return undefined;
    if (field !== undefined) return answer[field];
    const values = Object.values(answer);
    return values.length === 1 ? values[0] : answer;
  };
}

const textOf = (value: unknown) =>
  value === undefined ? undefined : typeof value === "string" ? value : toJson(value);

/** Ignores case, repeated and surrounding spaces, and a final full stop. */
const plain = (text: string) =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/\s+/g, " ")
    .trim()
    .replace(/\s*[.!]$/, "");

/** Whether the answer is one of the expected ones, ignoring case, spaces and a final full stop. */
export function exactMatch<S extends Scenario>(
  expected: (scenario: S) => string | number | bigint | readonly (string | number | bigint)[],
  given: Given = answerOf(),
) {
  return (rollout: FinishedRollout, scenario: S): boolean => {
    const text = textOf(given(rollout));
    return text !== undefined && [expected(scenario)].flat().some((one) => plain(String(one)) === plain(text));
  };
}

/** A sign is none after a letter or a digit ("3-5", "covid-19"); a point begins a number where neither is before it (".5"). */
const NUMBER = /(?:(?<![\p{L}\d])[-+])?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<![\p{L}\d.])\.\d+)(?:e[+-]?\d+)?/giu;

/** The last number in a text, with or without thousands separators: commas, or spaces that do not break. */
function lastNumber(text: string): number | undefined {
  const plainSigns = text.replaceAll("\u2212", "-").replace(/(?<=\d)[\u00a0\u202f\u2009](?=\d{3})/g, "");
  const found = plainSigns.match(NUMBER)?.at(-1);
  return found === undefined ? undefined : Number(found.replaceAll(",", ""));
}

/**
 * Whether the answer's number (the last one in a text) is the expected one.
 * @param options.tolerance relative, for numbers near 0 absolute; default 1e-6
 * @throws Error where none is expected: `Number("1,234")` is NaN, which no answer would match
 */
export function numericMatch<S extends Scenario>(
  expected: (scenario: S) => number,
  { tolerance = 1e-6, given = answerOf() }: { tolerance?: number; given?: Given } = {},
) {
  return (rollout: FinishedRollout, scenario: S): boolean => {
    const wanted = expected(scenario);
    if (Number.isNaN(Number(wanted)))
      throw new Error(`the number that numericMatch expects of the scenario ${scenario.id} is ${wanted}`);
    const value = given(rollout);
    const number =
      typeof value === "string"
        ? lastNumber(value)
        : ["number", "bigint"].includes(typeof value)
          ? Number(value)
          : undefined;
    return number !== undefined && Math.abs(number - wanted) <= tolerance * Math.max(1, Math.abs(wanted));
  };
}

/** Whether the pattern occurs in the answer. */
export function matches(pattern: RegExp, given: Given = answerOf()) {
  // A pattern with g or y keeps state between calls.
  const stateless = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ""));
  return (rollout: FinishedRollout): boolean => {
    const text = textOf(given(rollout));
    return text !== undefined && stateless.test(text);
  };
}

/** Whether the answer is JSON (possibly in a Markdown code block) that fits the schema. */
export function jsonMatch(schema?: z.ZodType, given: Given = answerOf()) {
  return (rollout: FinishedRollout): boolean => {
    const value = given(rollout);
    if (value === undefined) return false;
    let json = value;
    if (typeof value === "string") {
      const [, fenced] = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(value) ?? [];
      try {
        json = JSON.parse(fenced ?? value);
      } catch {
        return false;
      }
    }
    return schema === undefined || schema.safeParse(json).success;
  };
}
