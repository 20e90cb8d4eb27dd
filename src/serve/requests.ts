/**
 * Schemas of requests: the supported part of OpenAI's, and fields that ask for nothing that would be missed. Anything else,
 * an unknown field or an unsupported value, is refused, so that no demand is parsed and ignored.
 */
import { z } from "zod";
import { badRequest } from "./errors.js";

/** Error of a schema for a known field with an unsupported value. */
export const only = (what: string, why: string) => ({ error: `only ${what} is supported: ${why}` });

const sampler = "the engine samples without it";
/** Values of the chat template's variables. As in vLLM. */
export const templateArgs = z.record(z.string(), z.unknown()).nullish();
/** Larger than any context and any vocabulary, and the largest number that the engine takes. */
const MOST_TOKENS = 2 ** 31 - 1;

const part = z.object({ type: z.literal("text"), text: z.string() });
const content = z.union([z.string(), z.array(part)], {
  error: "must be a string, or a list of parts of the type text: models here read text alone",
});
/** Of a participant. Chat templates show none. */
const name = z.string().nullish();

const calls = z.array(
  z.object({
    id: z.string().min(1),
    type: z.literal("function"),
    function: z.object({ name: z.string().min(1), arguments: z.string() }),
  }),
);

const message = z.discriminatedUnion("role", [
  z.object({ role: z.enum(["system", "developer"]), content, name }),
  z.object({ role: z.literal("user"), content, name }),
  z.object({ role: z.literal("assistant"), content: content.nullish(), tool_calls: calls.nullish(), name }),
  z.object({ role: z.literal("tool"), content, tool_call_id: z.string().min(1) }),
]);

export const functionName = z
  .string()
  .regex(/^[a-zA-Z0-9_-]{1,64}$/, { error: "must be 1 to 64 letters, digits, _ and -" });
const functionType = z.literal("function", only("function", "there are no tools of other types here"));
/** Of a tool, as both of OpenAI's APIs have it. */
export const described = {
  name: functionName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
};
const tool = z.object({ type: functionType, function: z.strictObject(described) });

const choice = z.union(
  [
    z.enum(["auto", "none", "required"]),
    z.strictObject({ type: functionType, function: z.strictObject({ name: functionName }) }),
  ],
  { error: 'must be "auto", "none", "required", or {"type": "function", "function": {"name": ...}}' },
);

export const chatMessages = z.array(message).min(1);
export const chatTools = z.array(tool).max(128);

/** The format of an answer. */
const format = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    json_schema: z.strictObject({
      name: z.string(),
      description: z.string().nullish(),
      schema: z.record(z.string(), z.unknown()).nullish(),
      strict: z.boolean().nullish(),
    }),
  }),
]);

export const stop = z.union([z.string().min(1), z.array(z.string().min(1)).max(4)], {
  error: "must be a text, or up to 4 of them, none empty",
});
const probability = z.number().min(0).max(1);
/** -1 is no limit, as in other servers. */
export const tokens = z.union(
  [z.literal(-1).transform(() => Number.POSITIVE_INFINITY), z.int().min(1).max(MOST_TOKENS)],
  {
    error: `must be a whole number from 1 to ${MOST_TOKENS}, or -1 for no limit`,
  },
);
/** -1 is any, as in other servers. */
const seed = z
  .int({ error: `must be a whole number from -1 to ${Number.MAX_SAFE_INTEGER}` })
  .min(-1)
  .transform((value) => (value === -1 ? undefined : value));

/** Sampling fields of every dialect. Not in all of their APIs: top_k, min_p, seed, and the token ids, as in vLLM. */
export const sampling = {
  stream: z.boolean().nullish(),
  temperature: z.number().min(0).max(10).nullish(),
  top_p: probability.nullish(),
  top_k: z.int().min(-1).max(MOST_TOKENS).nullish(),
  min_p: probability.nullish(),
  seed: seed.nullish(),
  return_token_ids: z.boolean().nullish(),
};

/** The client's own labels, which do not change the answer. */
export const labels = {
  user: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
};

/** Fields of both routes. */
const common = {
  model: z.string().min(1),
  ...sampling,
  ...labels,
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      include_obfuscation: z.literal(false, only("false", "the server is on loopback")).nullish(),
    })
    .nullish(),
  stop: stop.nullish(),
  max_tokens: tokens.nullish(),
  n: z.int().min(1).max(128).nullish(),
  frequency_penalty: z.literal(0, only("0", sampler)).nullish(),
  presence_penalty: z.literal(0, only("0", sampler)).nullish(),
  logit_bias: z.strictObject({}, only("an empty object", sampler)).nullish(),
};

export const nothing = (why: string) => z.null(only("null", why)).optional();

const chatSchema = z.strictObject({
  ...common,
  messages: chatMessages,
  tools: chatTools.nullish(),
  tool_choice: choice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_completion_tokens: tokens.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  response_format: format.nullish(),
  chat_template_kwargs: templateArgs,
  store: z.literal(false, only("false", "completions are not stored")).nullish(),
  service_tier: z.enum(["auto", "default"], only("auto and default", "there is one tier")).nullish(),
  // Hints and labels that change nothing here.
  metadata: z.record(z.string(), z.unknown()).nullish(),
  reasoning_effort: z.string().nullish(),
  verbosity: z.string().nullish(),
  modalities: z.array(z.literal("text", only("text", "models here write text alone"))).nullish(),
  // Not asked for.
  prediction: nothing("no text is predicted"),
  audio: nothing("models here write text alone"),
  web_search_options: nothing("there is no search"),
  functions: nothing("'tools' take their place"),
  function_call: nothing("'tool_choice' takes its place"),
});

/** Checked at once: a list may have millions. */
export const ids = z.custom<number[]>(
  (value) => Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id) && id >= 0),
);

const completionSchema = z.strictObject({
  ...common,
  prompt: z.union([z.string().min(1), ids, z.array(z.string().min(1)).min(1).max(128), z.array(ids).min(1).max(128)], {
    error: "must be a text, a list of token ids, or a list of either; none empty",
  }),
  logprobs: z.int().min(0).max(20).nullish(),
  /** The prompt before the answer. With it 0 tokens may be asked for. */
  echo: z.boolean().nullish(),
  max_tokens: z.union([z.literal(0), tokens]).nullish(),
  suffix: z.literal("", only("none", "the models fill no gaps")).nullish(),
  best_of: z.literal(1, only("1", "ask for n and choose")).nullish(),
});

export type ChatRequest = z.output<typeof chatSchema>;
export type CompletionRequest = z.output<typeof completionSchema>;
export type ApiMessage = z.output<typeof message>;
export type ApiTool = z.output<typeof tool>;
export type ApiChoice = z.output<typeof choice>;
/** Sampling fields common to both requests. */
export type Asked = Pick<CompletionRequest, keyof typeof common>;

/** @throws ApiError (400) that names the first field that is wrong */
export function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const where = issue?.path.map(String).join(".") ?? "";
  if (issue?.code === "unrecognized_keys") {
    const [key] = issue.keys;
    const name = [where, key].filter(Boolean).join(".");
    throw badRequest(`Unrecognized request argument supplied: ${name}`, name, "unknown_parameter");
  }
  const name = where === "" ? "the request" : where;
  throw badRequest(`Invalid value for '${name}': ${issue?.message ?? "it is wrong"}`, where || null, "invalid_value");
}

/** @throws ApiError (400) for anything unsupported */
export function readChatRequest(body: unknown): ChatRequest {
  const request = parse<ChatRequest>(chatSchema, body);
  if (request.top_logprobs != null && !request.logprobs) {
    throw badRequest("'top_logprobs' needs 'logprobs': true", "top_logprobs", "invalid_value");
  }
  checkStream(request);
  checkChoice(request);
  return request;
}

/** What a request says alike in every dialect. */
export const sameInAll = (request: Pick<ChatRequest, "model" | "chat_template_kwargs" | keyof typeof sampling>) => {
  const { model, temperature, top_p, top_k, min_p, seed, chat_template_kwargs } = request;
  return { model, temperature, top_p, top_k, min_p, seed, chat_template_kwargs };
};

/** A call of a tool as messages have it. @param args JSON */
export const writtenCall = (id: string, name: string, args: string) => ({
  id,
  type: "function" as const,
  function: { name, arguments: args },
});

type Choice = Pick<ChatRequest, "tool_choice">;

/** The tool whose call is demanded by name. */
export const demandedBy = ({ tool_choice: choice }: Choice) =>
  typeof choice === "object" ? choice?.function.name : undefined;

/** Whether there has to be a call. */
export const isForced = (asked: Choice) => asked.tool_choice === "required" || demandedBy(asked) !== undefined;

/** @throws ApiError (400) where the choice names what is not there */
export function checkChoice(asked: Pick<ChatRequest, "tools" | "tool_choice">): void {
  if (!isForced(asked)) return;
  const { tools } = asked;
  const wrong = (why: string) => badRequest(`'tool_choice' ${why}`, "tool_choice", "invalid_value");
  if ((tools ?? []).length === 0) throw wrong("needs 'tools'");
  const named = demandedBy(asked);
  if (named !== undefined && !tools?.some((tool) => tool.function.name === named)) {
    throw wrong(`names ${named}, which is not in 'tools'`);
  }
}

/** @throws ApiError (400) for anything unsupported */
export function readCompletionRequest(body: unknown): CompletionRequest {
  const request = parse<CompletionRequest>(completionSchema, body);
  if (request.max_tokens === 0 && !request.echo) {
    throw badRequest("'max_tokens' 0 is for 'echo': true", "max_tokens", "invalid_value");
  }
  if (request.echo && request.stream) throw badRequest("'echo' is not streamed", "echo", "invalid_value");
  checkStream(request);
  return request;
}

/** @throws ApiError (400) for options of a stream that is not asked for */
export function checkStream({ stream, stream_options: options }: { stream?: unknown; stream_options?: unknown }): void {
  if (options != null && !stream) {
    throw badRequest("'stream_options' is for 'stream': true", "stream_options", "invalid_value");
  }
}
