/**
 * What a chat request demands of the form of a turn, as a grammar: a response format, calls that have to come, arguments
 * that obey their tool's schema, one call at most.
 */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Chat } from "../chat/chat.js";
import type { Grammar } from "../core/engine/sequence.js";
import type { FieldTag } from "../core/rollout/conversation.js";
import { toJson } from "../core/util/json.js";
import { badRequest } from "./errors.js";
import { type ChatRequest, demandedBy, isForced } from "./requests.js";
import { Rules } from "./rules.js";
import { Converter, Rooted } from "./schema.js";

const ANY_OBJECT = { type: "object", additionalProperties: true };
/** Maximum length of a response format as JSON; more would take seconds to convert. */
const MOST_SCHEMA = 256 * 1024;

type Asked = Pick<ChatRequest, "tools" | "tool_choice" | "parallel_tool_calls" | "response_format">;

/** The form of a request's turns. */
export interface Form {
  readonly grammar: Grammar;
  /** What the schemas demand and the grammar does not express, each in one line. */
  readonly notEnforced: readonly string[];
}

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
  if (toJson(schema).length > MOST_SCHEMA) throw wrong(`it has more than ${MOST_SCHEMA} characters`);
  return new Rooted(schema, "response_format", wrong);
}

/** The tools that may be called, each with the schema that its arguments have to obey. */
function callableOf(asked: Asked): { name: string; parameters: object }[] {
  const named = demandedBy(asked);
  return (asked.tools ?? []).flatMap(({ function: { name, parameters, strict } }, index) => {
    if (named !== undefined && name !== named) return [];
    const wrong = (why: string) =>
      badRequest(
        `Invalid schema for function '${name}': ${why}`,
        `tools.${index}.function.parameters`,
        "invalid_function_parameters",
      );
    const schema = parameters ?? { type: "object", properties: {} };
    return [{ name, parameters: strict ? new Rooted(schema, `function '${name}'`, wrong) : ANY_OBJECT }];
  });
}

/** What a request demands of the form of its turns, each by the name of the option; empty where turns are free. */
export function demandsOf(asked: Asked): string[] {
  const strict = (asked.tools ?? []).filter(({ function: { strict } }) => strict);
  const format = asked.response_format;
  return [
    ...(isForced(asked) ? ["tool_choice"] : []),
    ...(asked.parallel_tool_calls === false ? ["parallel_tool_calls"] : []),
    ...strict.map(({ function: { name } }) => `strict of the function '${name}'`),
    ...(format == null || format.type === "text" ? [] : ["response_format"]),
  ];
}

/** Forms made last: an agent asks with the same schemas at each turn. */
const made = new LRUCache<string, Form>({ max: 32 });

/** The form that a request's turns have; undefined where they are free. @throws ApiError (400) */
export function formOf(asked: Asked, chat: Chat): Form | undefined {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel, response_format: format } = asked;
  const demands = demandsOf(asked);
  const calling = isForced(asked) || (choice !== "none" && (tools ?? []).length > 0);
  if (demands.length === 0 || (!calling && format == null)) return undefined;
  const { marks, opened, sample } = chat;
  const about = [tools, choice, parallel, format, chat.format?.name, sample, marks, opened];
  const key = hash("sha256", toJson(about), "base64");
  const known = made.get(key);
  if (known) return known;
  const form = convert(asked, chat, calling);
  if (form) made.set(key, form);
  return form;
}

/** The marks of the format, with those of the tools. */
function marksOf({ format }: Chat, asked: Asked) {
  const own = format?.marks;
  return (
    own && {
      ...own,
      anywhere: [...own.anywhere, ...callableOf(asked).flatMap(({ name }) => format.marksOf?.(name) ?? [])],
    }
  );
}

function convert(asked: Asked, chat: Chat, calling: boolean): Form | undefined {
  const forced = isForced(asked);
  const answer = schemaOfFormat(asked.response_format);
  const rules = new Rules();
  const converter = new Converter(rules);
  const json = (schema: object, how?: "tagless") => converter.rule(schema, how === "tagless");
  const fields = (schema: object, tag: FieldTag) => converter.fields(schema, tag);
  const alternatives: string[] = [];
  if (answer && !forced) alternatives.push(json(answer));
  if (calling && chat.format) {
    const [tools, many] = [callableOf(asked), asked.parallel_tool_calls !== false];
    alternatives.push(chat.format.grammar({ tools, many, sample: chat.sample, json, fields }));
  }
  if (alternatives.length === 0) return undefined;
  const { marks, opened } = chat;
  return {
    grammar: {
      rules: rules.text(`space (${alternatives.join(" | ")})`),
      thoughts: marks && { open: marks.open, close: marks.close, opened },
      marks: answer || forced ? undefined : marksOf(chat, asked),
    },
    notEnforced: converter.notEnforced,
  };
}
