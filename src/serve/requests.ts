/**
 * Schemas of requests: the supported part of OpenAI's. Anything else, an unknown field or an unsupported value, is
 * refused, so that nothing is parsed and ignored.
 */
import { z } from "zod";
import { badRequest } from "./errors.js";

/** Error of a schema for a known field with an unsupported value. */
const only = (what: string, why: string) => ({ error: `only ${what} is supported: ${why}` });

const sampler = "the engine samples without it";
const free = "turns that are trained are not constrained by a grammar";

const part = z.object({ type: z.literal("text"), text: z.string() });
const content = z.union([z.string(), z.array(part)], {
  error: "must be a string, or a list of parts of the type text: models here read text alone",
});
/** For fields that chat templates cannot render. */
const nobody = z.null(only("null", "chat templates do not show names of participants")).optional();

const calls = z.array(
  z.object({
    id: z.string().min(1),
    type: z.literal("function"),
    function: z.object({ name: z.string().min(1), arguments: z.string() }),
  }),
);

const message = z.discriminatedUnion("role", [
  z.object({ role: z.enum(["system", "developer"]), content, name: nobody }),
  z.object({ role: z.literal("user"), content, name: nobody }),
  z.object({ role: z.literal("assistant"), content: content.nullish(), tool_calls: calls.nullish(), name: nobody }),
  z.object({ role: z.literal("tool"), content, tool_call_id: z.string().min(1) }),
]);

const functionName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, { error: "must be 1 to 64 letters, digits, _ and -" });
const functionType = z.literal("function", only("function", "there are no tools of other types here"));
const callable = {
  name: functionName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
};
const tool = z.object({
  type: functionType,
  function: z.strictObject({ ...callable, strict: z.boolean().nullish() }),
});

const choice = z.union(
  [
    z.enum(["auto", "none", "required"]),
    z.strictObject({ type: functionType, function: z.strictObject({ name: functionName }) }),
  ],
  { error: 'must be "auto", "none", "required", or {"type": "function", "function": {"name": ...}}' },
);

/** The format of an answer, with or without a schema that is enforced. */
const formatWith = <Strict extends z.ZodType>(strict: Strict) =>
  z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("text") }),
      z.strictObject({ type: z.literal("json_object") }),
      z.strictObject({
        type: z.literal("json_schema"),
        json_schema: z.strictObject({
          name: z.string(),
          description: z.string().nullish(),
          schema: z.record(z.string(), z.unknown()).nullish(),
          strict,
        }),
      }),
    ])
    .nullish();

const stop = z.union([z.string().min(1), z.array(z.string().min(1)).max(4)], {
  error: "must be a text, or up to 4 of them, none empty",
});
const probability = z.number().min(0).max(1);
const tokens = z.int().min(1);

/** Fields of both routes. */
const common = {
  model: z.string().min(1),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      include_obfuscation: z.literal(false, only("false", "the server is on loopback")).nullish(),
    })
    .nullish(),
  stop: stop.nullish(),
  max_tokens: tokens.nullish(),
  temperature: z.number().min(0).max(10).nullish(),
  top_p: probability.nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: probability.nullish(),
  seed: z.int().min(0).nullish(),
  n: z.int().min(1).max(128).nullish(),
  frequency_penalty: z.literal(0, only("0", sampler)).nullish(),
  presence_penalty: z.literal(0, only("0", sampler)).nullish(),
  logit_bias: z.strictObject({}, only("an empty object", sampler)).nullish(),
  /** Not in OpenAI's API; as in vLLM. */
  return_token_ids: z.boolean().nullish(),
  // The client's own labels, which do not change the answer.
  user: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
};

const chatSchema = z.strictObject({
  ...common,
  messages: z.array(message).min(1),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: choice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_completion_tokens: tokens.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  response_format: formatWith(z.boolean().nullish()),
  store: z.literal(false, only("false", "completions are not stored")).nullish(),
  service_tier: z.enum(["auto", "default"], only("auto and default", "there is one tier")).nullish(),
});

/** As {@link chatSchema}, where nothing is enforced: the answer states whether it has the response format. */
const unenforcedSchema = chatSchema.extend({
  tools: z
    .array(
      tool.extend({
        function: z.strictObject({ ...callable, strict: z.literal(false, only("false", free)).nullish() }),
      }),
    )
    .max(128)
    .nullish(),
  tool_choice: z.enum(["auto", "none"], only("auto and none", free)).nullish(),
  parallel_tool_calls: z.literal(true, only("true", free)).nullish(),
  response_format: formatWith(z.literal(false, only("false", free)).nullish()),
});

const ids = z.array(z.int().min(0)).min(1);

const completionSchema = z.strictObject({
  ...common,
  prompt: z.union([z.string().min(1), ids, z.array(z.string().min(1)).min(1).max(128), z.array(ids).min(1).max(128)], {
    error: "must be a text, a list of token ids, or a list of either; none empty",
  }),
  logprobs: z.int().min(0).max(20).nullish(),
  echo: z.literal(false, only("false", "log-probabilities of prompts are not computed")).nullish(),
  suffix: z.literal("", only("none", "the models fill no gaps")).nullish(),
  best_of: z.literal(1, only("1", "ask for n and choose")).nullish(),
});

export type ChatRequest = z.output<typeof chatSchema>;
export type CompletionRequest = z.output<typeof completionSchema>;
export type ApiMessage = z.output<typeof message>;
export type ApiTool = z.output<typeof tool>;
/** Sampling fields common to both requests. */
export type Asked = Pick<CompletionRequest, keyof typeof common>;

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
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

/**
 * @param unenforced whether turns are free: a response format is only checked then (formats.ts)
 * @throws ApiError (400) for anything unsupported
 */
export function readChatRequest(body: unknown, unenforced = false): ChatRequest {
  const request = parse<ChatRequest>(unenforced ? unenforcedSchema : chatSchema, body);
  if (request.top_logprobs != null && !request.logprobs) {
    throw badRequest("'top_logprobs' needs 'logprobs': true", "top_logprobs", "invalid_value");
  }
  checkStream(request);
  return request;
}

/** @throws ApiError (400) for anything unsupported */
export function readCompletionRequest(body: unknown): CompletionRequest {
  const request = parse(completionSchema, body);
  checkStream(request);
  return request;
}

function checkStream({ stream, stream_options: options }: Asked): void {
  if (options != null && !stream) {
    throw badRequest("'stream_options' is for 'stream': true", "stream_options", "invalid_value");
  }
}
