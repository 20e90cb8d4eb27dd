/**
 * What a chat request demands of the form of a turn, as a grammar: a response format, calls that have to come, arguments
 * that obey their tool's schema, one call at most.
 */
import { type Grammar, type GrammarRules, grammarRules } from "../engine/index.js";
import type { Chat } from "../rollout/index.js";
import { HoneError } from "../util/index.js";
import { type ApiError, badRequest } from "./errors.js";
import type { ChatRequest } from "./requests.js";
import { enforceable, Unenforceable } from "./schema.js";

const ANY_OBJECT = { type: "object", additionalProperties: true };
/** Between marks and JSON, as models write it; more would be an endless turn. */
const SPACE = "space ::= [ \\n\\t]{0,4}";

type Asked = Pick<ChatRequest, "tools" | "tool_choice" | "parallel_tool_calls" | "response_format">;

/** The schema of a response format; undefined for text. */
function schemaOfFormat(format: ChatRequest["response_format"]): object | undefined {
  if (format == null || format.type === "text") return undefined;
  const schema = format.type === "json_schema" ? format.json_schema.schema : undefined;
  if (format.type === "json_object" || schema == null) return ANY_OBJECT;
  const wrong = (why: string) =>
    badRequest(
      `Invalid schema for response_format '${format.json_schema.name}': ${why}`,
      "response_format",
      "invalid_json_schema",
    );
  return enforced(schema, wrong);
}

function enforced(schema: unknown, wrong: (why: string) => ApiError): object {
  try {
    return enforceable(schema);
  } catch (error) {
    if (error instanceof Unenforceable) throw wrong(error.message);
    throw error;
  }
}

/** The tools that may be called, each with the schema that its arguments have to obey. */
function callableOf({ tools, tool_choice: choice }: Asked): { name: string; parameters: object }[] {
  const named = typeof choice === "object" && choice !== null ? choice.function.name : undefined;
  const all = tools ?? [];
  if (all.length === 0) throw badRequest("'tool_choice' needs 'tools'", "tool_choice", "invalid_value");
  if (named !== undefined && !all.some((tool) => tool.function.name === named)) {
    throw badRequest(`'tool_choice' names ${named}, which is not in 'tools'`, "tool_choice", "invalid_value");
  }
  return all.flatMap(({ function: { name, parameters, strict } }, index) => {
    if (named !== undefined && name !== named) return [];
    const wrong = (why: string) =>
      badRequest(
        `Invalid schema for function '${name}': ${why}`,
        `tools.${index}.function.parameters`,
        "invalid_function_parameters",
      );
    if (!strict) return [{ name, parameters: ANY_OBJECT }];
    return [{ name, parameters: enforced(parameters ?? { type: "object", properties: {} }, wrong) }];
  });
}

/** The grammar that a request's turns obey; undefined where they are free. @throws ApiError (400) */
export async function grammarOf(asked: Asked, chat: Chat): Promise<Grammar | undefined> {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = asked;
  const answer = schemaOfFormat(asked.response_format);
  const forced = choice === "required" || (typeof choice === "object" && choice !== null);
  const calling = forced || (choice !== "none" && (tools ?? []).length > 0);
  const narrowed = parallel === false || (tools ?? []).some((tool) => tool.function.strict);
  if (!(answer || forced || (calling && narrowed))) return undefined;

  const schemas: Wanted[] = [];
  const json = (schema: object, how?: "tagless") => {
    schemas.push({ schema, tagless: how === "tagless" });
    return `json${schemas.length}-root`;
  };
  const alternatives: string[] = [];
  if (answer && !forced) alternatives.push(json(answer));
  if (calling && chat.format) {
    const wanted = { tools: callableOf(asked), many: parallel !== false, sample: chat.sample, json };
    alternatives.push(chat.format.grammar(wanted));
  }
  const rules = await rulesOf(`space (${alternatives.join(" | ")})`, schemas);
  const { marks, opened } = chat;
  return {
    rules,
    thoughts: marks && { open: marks.open, close: marks.close, opened },
    marks: answer || forced ? undefined : chat.format?.marks,
  };
}

/** Grammars made last: an agent asks with the same schemas at each turn. */
const made = new Map<string, Promise<string>>();
const MOST_MADE = 64;

interface Wanted {
  readonly schema: object;
  readonly tagless: boolean;
}

function rulesOf(root: string, schemas: readonly Wanted[]): Promise<string> {
  const key = JSON.stringify([root, schemas]);
  const before = made.get(key);
  made.delete(key);
  const rules = before ?? convert(root, schemas);
  made.set(key, rules);
  rules.catch(() => made.delete(key));
  for (const [oldest] of made) {
    if (made.size <= MOST_MADE) break;
    made.delete(oldest);
  }
  return rules;
}

async function convert(root: string, schemas: readonly Wanted[]): Promise<string> {
  const parts: GrammarRules[] = [];
  try {
    for (const [index, { schema, tagless }] of schemas.entries()) {
      parts.push(await grammarRules(schema, `json${index + 1}-`, tagless));
    }
  } catch (error) {
    if (!(error instanceof HoneError)) throw error;
    throw badRequest(`The schemas are too large to be enforced: ${error.message}`, null, "invalid_json_schema");
  }
  return [`root ::= ${root}`, SPACE, ...parts.map(({ rules }) => rules)].join("\n");
}
