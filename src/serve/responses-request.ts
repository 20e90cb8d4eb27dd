/**
 * Requests of OpenAI's Responses API, as requests for chats: items become messages, and options the same options. What only a
 * platform has (files, built-in tools, background) is refused by its name.
 */
import { z } from "zod";
import { badRequest, unsupported } from "./errors.js";
import {
  type ApiMessage,
  type ChatRequest,
  checkChoice,
  checkStream,
  described,
  functionName,
  labels,
  nothing,
  only,
  parse,
  sameInAll,
  sampling,
  stop,
  templateArgs,
  tokens,
  writtenCall,
} from "./requests.js";

/** Ids are kept and looked up: longer ones are none of a server's or a client's. */
const MOST_ID = 1024;
const id = z.string().min(1).max(MOST_ID);

const part = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.enum(["input_text", "output_text", "text"]), text: z.string() }),
    z.object({ type: z.literal("refusal"), refusal: z.string() }),
  ],
  { error: "must be a part with text: models here read text alone" },
);
const content = z.union([z.string(), z.array(part)], {
  error: "must be a string, or a list of parts with text: models here read text alone",
});

const messageItem = z.object({
  type: z.literal("message"),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content,
  id: z.string().max(MOST_ID).nullish(),
});
const item = z.discriminatedUnion(
  "type",
  [
    messageItem,
    z.object({
      type: z.literal("function_call"),
      call_id: id,
      name: z.string().min(1),
      arguments: z.string(),
    }),
    z.object({ type: z.literal("function_call_output"), call_id: id, output: content }),
    z.object({ type: z.literal("reasoning") }),
    z.object({ type: z.literal("item_reference"), id }),
  ],
  {
    error:
      "must be an item of the type message, function_call, function_call_output, reasoning or item_reference: there are no built-in tools here",
  },
);
/** Clients leave out the type of messages and of references. */
const itemOrShort = z.preprocess((value) => {
  if (typeof value !== "object" || value === null || (value as { type?: unknown }).type != null) return value;
  return { ...value, type: "role" in value ? "message" : "item_reference" };
}, item);

const tool = z.strictObject({
  type: z.literal("function", only("function", "there are no built-in tools here")),
  ...described,
  defer_loading: z.literal(false, only("false", "tools are shown at once")).nullish(),
});

const choice = z.union(
  [z.enum(["auto", "none", "required"]), z.strictObject({ type: z.literal("function"), name: functionName })],
  { error: 'must be "auto", "none", "required", or {"type": "function", "name": ...}' },
);

const format = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: z.string(),
    description: z.string().nullish(),
    schema: z.record(z.string(), z.unknown()),
    strict: z.boolean().nullish(),
  }),
]);

const schema = z.strictObject({
  model: z.string().min(1),
  input: z.preprocess(
    (value) => (typeof value === "string" ? [{ role: "user", content: value }] : value),
    z.array(itemOrShort).min(1),
  ),
  instructions: z.string().nullish(),
  previous_response_id: z.string().max(MOST_ID).nullish(),
  store: z.boolean().nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: choice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  text: z.strictObject({ format: format.nullish(), verbosity: z.string().nullish() }).nullish(),
  max_output_tokens: tokens.nullish(),
  ...sampling,
  top_logprobs: z.int().min(0).max(20).nullish(),
  include: z.array(z.string()).nullish(),
  stream_options: z
    .strictObject({ include_obfuscation: z.literal(false, only("false", "the server is on loopback")).nullish() })
    .nullish(),
  truncation: z.literal("disabled", only("disabled", "no part of a conversation is left out")).nullish(),
  background: z.literal(false, only("false", "a response ends with its request")).nullish(),
  service_tier: z.enum(["auto", "default"], only("auto and default", "there is one tier")).nullish(),
  // Not in OpenAI's API; as on /v1/chat/completions.
  stop: stop.nullish(),
  chat_template_kwargs: templateArgs,
  // Hints and labels that change nothing here.
  metadata: z.record(z.string(), z.string()).nullish(),
  reasoning: z.looseObject({}).nullish(),
  ...labels,
  prompt_cache_retention: z.string().nullish(),
  // Not asked for.
  conversation: nothing("conversations are not stored by name; send all items, or previous_response_id"),
  prompt: nothing("there are no stored prompts"),
  max_tool_calls: nothing("there are no built-in tools"),
  context_management: nothing("no part of a conversation is left out"),
});

export type ResponsesRequest = z.output<typeof schema>;
export type ResponseItem = Exclude<z.output<typeof item>, { type: "item_reference" }>;

/** Included on request, where there is anything of it: a response here has neither searches nor files. */
const LOGPROBS = "message.output_text.logprobs";

/** @throws ApiError (400) for anything unsupported */
export function readResponsesRequest(body: unknown): ResponsesRequest {
  const request = parse(schema, body);
  if (request.top_logprobs && !request.include?.includes(LOGPROBS)) {
    throw badRequest(`'top_logprobs' needs '${LOGPROBS}' in 'include'`, "top_logprobs", "invalid_value");
  }
  checkStream(request);
  return request;
}

/** The conversation's items, those that are named by their ids included. */
export function itemsOf(
  { input }: ResponsesRequest,
  earlier: readonly ResponseItem[],
  find: (id: string) => ResponseItem | undefined,
): ResponseItem[] {
  const items = input.map((one, index): ResponseItem => {
    if (one.type !== "item_reference") return one;
    const found = find(one.id);
    if (found) return found;
    const why = `Item with id '${one.id}' not found. Items are kept in memory while there is room, and with 'store' alone: send the item itself.`;
    throw badRequest(why, `input.${index}.id`, "item_not_found");
  });
  return [...earlier, ...items];
}

const textOf = (content: z.output<typeof messageItem>["content"]): string =>
  typeof content === "string" ? content : content.map((one) => ("text" in one ? one.text : one.refusal)).join("");

interface Turn {
  readonly role: "assistant";
  readonly content: string;
  readonly tool_calls: ReturnType<typeof writtenCall>[];
}

/**
 * Messages of items. A turn of the model is an item of reasoning, a message and calls, each where it has any: what comes in
 * another order begins another turn.
 */
function messagesOf(instructions: string | null | undefined, items: readonly ResponseItem[]): ApiMessage[] {
  const messages: ApiMessage[] = instructions ? [{ role: "system", content: instructions }] : [];
  let turn: Turn | undefined;
  const begin = (content: string) => {
    turn = { role: "assistant", content, tool_calls: [] };
    messages.push(turn);
    return turn;
  };
  for (const one of items) {
    if (one.type === "reasoning") turn = undefined;
    else if (one.type === "function_call") {
      const { call_id: id, name, arguments: args } = one;
      (turn ?? begin("")).tool_calls.push(writtenCall(id, name, args));
    } else if (one.type === "message" && one.role === "assistant") {
      begin(textOf(one.content));
    } else {
      turn = undefined;
      if (one.type === "function_call_output") {
        messages.push({ role: "tool", content: textOf(one.output), tool_call_id: one.call_id });
      } else messages.push({ role: one.role as "user" | "system" | "developer", content: textOf(one.content) });
    }
  }
  return messages;
}

function formatOf({ text }: ResponsesRequest): ChatRequest["response_format"] {
  const format = text?.format;
  if (format == null) return undefined;
  const { type } = format;
  if (type !== "json_schema") return { type };
  const { type: _, ...about } = format;
  return { type, json_schema: about };
}

/** @throws ApiError (400) */
export function chatOfResponses(request: ResponsesRequest, items: readonly ResponseItem[]): ChatRequest {
  const { tool_choice: choice, include } = request;
  const logprobs = include?.includes(LOGPROBS);
  const messages = messagesOf(request.instructions, items);
  if (messages.length === 0) throw unsupported("'input' has no message", "input");
  const chat: ChatRequest = {
    ...sameInAll(request),
    messages,
    tools: request.tools?.map(({ name, description, parameters, strict }) => ({
      type: "function",
      function: { name, description, parameters, strict },
    })),
    tool_choice:
      typeof choice === "object" && choice !== null ? { type: "function", function: { name: choice.name } } : choice,
    ...(request.tools?.length ? { parallel_tool_calls: request.parallel_tool_calls } : {}),
    response_format: formatOf(request),
    ...(logprobs ? { logprobs, top_logprobs: request.top_logprobs } : {}),
    max_completion_tokens: request.max_output_tokens,
    stop: request.stop,
  };
  checkChoice(chat);
  return chat;
}
