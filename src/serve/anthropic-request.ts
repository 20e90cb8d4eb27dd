/**
 * Requests of Anthropic's Messages API, as requests for chats: blocks become messages and calls, and options the same
 * options. What only a platform has (its own tools, containers, MCP connectors) is refused by its name.
 */
import { z } from "zod";
import { toJson } from "../core/util/json.js";
import { unsupported } from "./errors.js";
import {
  type ApiMessage,
  type ChatRequest,
  checkChoice,
  functionName,
  nothing,
  only,
  parse,
  sameInAll,
  sampling,
  templateArgs,
  tokens,
  writtenCall,
} from "./requests.js";

const textOnly = "must be a string, or a list of blocks of text: models here read text alone";
const text = z.object({ type: z.literal("text"), text: z.string() });
const texts = z.union([z.string(), z.array(text)], { error: textOnly });

const userBlock = z.discriminatedUnion(
  "type",
  [text, z.object({ type: z.literal("tool_result"), tool_use_id: z.string().min(1), content: texts.nullish() })],
  { error: "must be a block of the type text or tool_result: models here read text alone" },
);
const assistantBlock = z.discriminatedUnion(
  "type",
  [
    text,
    z.object({
      type: z.literal("tool_use"),
      id: z.string().min(1),
      name: z.string().min(1),
      input: z.record(z.string(), z.unknown()),
    }),
    // Thoughts stay as they were sampled.
    z.object({ type: z.enum(["thinking", "redacted_thinking"]) }),
  ],
  { error: "must be a block of the type text, tool_use or thinking" },
);

/** A text is a block of its own. */
const blocks = <T extends z.ZodType>(block: T, least = 0) =>
  z.preprocess(
    (value) => (typeof value === "string" ? [{ type: "text", text: value }] : value),
    z.array(block).min(least),
  );

const message = z.discriminatedUnion("role", [
  z.object({ role: z.literal("user"), content: blocks(userBlock, 1) }),
  z.object({ role: z.literal("assistant"), content: blocks(assistantBlock) }),
  z.object({ role: z.literal("system"), content: texts }),
]);

const tool = z.strictObject({
  type: z.literal("custom", only("custom", "there are no built-in tools here")).nullish(),
  name: functionName,
  description: z.string().nullish(),
  input_schema: z.record(z.string(), z.unknown()),
  strict: z.boolean().nullish(),
  cache_control: z.unknown().optional(),
  eager_input_streaming: z.boolean().nullish(),
  defer_loading: z.literal(false, only("false", "tools are shown at once")).nullish(),
});

const choice = z.discriminatedUnion("type", [
  z.strictObject({ type: z.enum(["auto", "any"]), disable_parallel_tool_use: z.boolean().nullish() }),
  z.strictObject({ type: z.literal("tool"), name: functionName, disable_parallel_tool_use: z.boolean().nullish() }),
  z.strictObject({ type: z.literal("none") }),
]);

const schemaFormat = z.strictObject({ type: z.literal("json_schema"), schema: z.record(z.string(), z.unknown()) });

/** Fields that say what the conversation is. */
const conversation = {
  model: z.string().min(1),
  messages: z.array(message).min(1),
  system: texts.nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: choice.nullish(),
  chat_template_kwargs: templateArgs,
  output_config: z.strictObject({ format: schemaFormat.nullish(), effort: z.string().nullish() }).nullish(),
  output_format: schemaFormat.nullish(),
  // Hints that change nothing here.
  thinking: z.looseObject({ type: z.enum(["enabled", "disabled", "adaptive"]) }).nullish(),
  cache_control: z.unknown().optional(),
  mcp_servers: z.array(z.never(), only("none", "there are no connectors here")).nullish(),
  context_management: nothing("no part of a conversation is left out"),
};

const schema = z.strictObject({
  ...conversation,
  max_tokens: tokens,
  ...sampling,
  stop_sequences: z.array(z.string().min(1)).max(16).nullish(),
  // Labels that change nothing here.
  metadata: z.record(z.string(), z.unknown()).nullish(),
  service_tier: z.enum(["auto", "standard_only"]).nullish(),
  thread: nothing("conversations are not kept by name; send all messages"),
  container: nothing("there are no containers here"),
});

const countSchema = z.strictObject(conversation);

export type AnthropicRequest = z.output<typeof schema>;
/** Of `/v1/messages/count_tokens`. */
export type CountRequest = z.output<typeof countSchema>;

const textOf = (content: z.output<typeof texts> | null | undefined): string =>
  typeof content === "string" ? content : (content ?? []).map((block) => block.text).join("");

function assistantMessage(content: readonly z.output<typeof assistantBlock>[]): ApiMessage {
  const calls = content.flatMap((block) =>
    block.type === "tool_use" ? [writtenCall(block.id, block.name, toJson(block.input))] : [],
  );
  return {
    role: "assistant",
    content: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

/** Results are messages of their own; the texts around them are the user's. */
function userMessages(content: readonly z.output<typeof userBlock>[]): ApiMessage[] {
  const messages: ApiMessage[] = [];
  let said: string[] = [];
  const say = () => {
    if (said.length > 0) messages.push({ role: "user", content: said.join("") });
    said = [];
  };
  for (const block of content) {
    if (block.type === "text") said.push(block.text);
    else {
      say();
      messages.push({ role: "tool", content: textOf(block.content), tool_call_id: block.tool_use_id });
    }
  }
  say();
  return messages;
}

function choiceOf({ tool_choice: choice }: CountRequest): ChatRequest["tool_choice"] {
  if (choice?.type === "tool") return { type: "function", function: { name: choice.name } };
  return choice?.type === "any" ? "required" : choice?.type;
}

/** @throws ApiError (400) */
export function chatOfMessages(request: CountRequest & Partial<AnthropicRequest>): ChatRequest {
  const { messages, system, tools, tool_choice: choice } = request;
  if (messages.at(-1)?.role === "assistant") {
    throw unsupported(
      "'messages' end with the assistant's: turns are not continued from a given beginning; end with the user's",
      "messages",
    );
  }
  const format = request.output_config?.format ?? request.output_format;
  const single = choice != null && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use;
  const chat: ChatRequest = {
    ...sameInAll(request),
    messages: [
      ...(system == null || textOf(system) === "" ? [] : [{ role: "system" as const, content: textOf(system) }]),
      ...messages.flatMap((one): ApiMessage[] => {
        if (one.role === "assistant") return [assistantMessage(one.content)];
        return one.role === "user" ? userMessages(one.content) : [{ role: "system", content: textOf(one.content) }];
      }),
    ],
    tools: tools?.map(({ name, description, input_schema: parameters, strict }) => ({
      type: "function",
      function: { name, description, parameters, strict },
    })),
    tool_choice: choiceOf(request),
    ...(single ? { parallel_tool_calls: false } : {}),
    ...(format
      ? { response_format: { type: "json_schema", json_schema: { name: "answer", schema: format.schema } } }
      : {}),
    max_completion_tokens: request.max_tokens,
    stop: request.stop_sequences,
  };
  checkChoice(chat);
  return chat;
}

/** @throws ApiError (400) for anything unsupported */
export const readAnthropicRequest = (body: unknown): AnthropicRequest => parse(schema, body);

/** @throws ApiError (400) for anything unsupported */
export const readCountRequest = (body: unknown): CountRequest => parse(countSchema, body);
