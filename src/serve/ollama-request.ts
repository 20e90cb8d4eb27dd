/** Requests of Ollama's `/api/chat`, as requests for chats. */
import { z } from "zod";
import { callId } from "../rollout/index.js";
import { toJson } from "../util/index.js";
import { badRequest, unsupported } from "./errors.js";
import type { ServedModel } from "./model.js";
import { type ApiMessage, type ChatRequest, chatTools, only, parse, probability, seed, stop } from "./requests.js";

const sampler = "the engine samples without it";

const message = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  images: z.array(z.never(), only("none", "models here read text alone")).nullish(),
  tool_calls: z
    .array(
      z.object({
        id: z.string().nullish(),
        function: z.object({ name: z.string().min(1), arguments: z.record(z.string(), z.unknown()).nullish() }),
      }),
    )
    .nullish(),
  tool_name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
});

const options = z.strictObject({
  temperature: z.number().min(0).max(10).nullish(),
  top_k: z.int().min(-1).nullish(),
  top_p: probability.nullish(),
  min_p: probability.nullish(),
  seed: seed.nullish(),
  stop: stop.nullish(),
  /** -1 and -2: to the end of the context. */
  num_predict: z.int().min(-2).nullish(),
  num_ctx: z.int().min(1).nullish(),
  repeat_penalty: z.literal(1, only("1", sampler)).nullish(),
  presence_penalty: z.literal(0, only("0", sampler)).nullish(),
  frequency_penalty: z.literal(0, only("0", sampler)).nullish(),
});

const schema = z.strictObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  tools: chatTools.nullish(),
  format: z.union([z.enum(["json", ""]), z.record(z.string(), z.unknown())]).nullish(),
  options: options.nullish(),
  think: z.union([z.boolean(), z.enum(["low", "medium", "high"])]).nullish(),
  stream: z.boolean().nullish(),
  // The model stays loaded as long as the server runs.
  keep_alive: z.union([z.string(), z.number()]).nullish(),
});

export type OllamaRequest = z.output<typeof schema>;

/** @throws ApiError (400) for anything unsupported */
export const readOllamaRequest = (body: unknown): OllamaRequest => parse(schema, body);

interface Open {
  readonly id: string;
  readonly name: string;
}

/** Ollama's clients drop the ids of calls: these are numbered as hone numbers them, and results are those of the calls before. */
function messagesOf({ messages }: OllamaRequest): ApiMessage[] {
  let calls = 0;
  let open: Open[] = [];
  return messages.map((one, index): ApiMessage => {
    const content = one.content ?? "";
    if (one.role === "tool") {
      const { tool_call_id: id, tool_name: name } = one;
      const at = open.findIndex((call) => (id != null ? call.id === id : name == null || call.name === name));
      if (at < 0) {
        const why = `no tool call of the assistant's message before is ${name ?? id ?? "open"}, or it was answered`;
        throw badRequest(why, `messages.${index}`, "invalid_value");
      }
      const [call] = open.splice(at, 1) as [Open];
      return { role: "tool", content, tool_call_id: call.id };
    }
    open = [];
    if (one.role !== "assistant") return { role: one.role, content };
    const written = (one.tool_calls ?? []).map((call) => {
      const id = call.id || callId(++calls);
      open.push({ id, name: call.function.name });
      const args = toJson(call.function.arguments ?? {});
      return { id, type: "function" as const, function: { name: call.function.name, arguments: args } };
    });
    return { role: "assistant", content, ...(written.length > 0 ? { tool_calls: written } : {}) };
  });
}

/** @throws ApiError (400) where the model has no choice whether to think */
function thinkingOf(
  { think }: OllamaRequest,
  { chat, name, engine }: ServedModel,
): ChatRequest["chat_template_kwargs"] {
  if (think == null || (think === false && !chat.marks)) return undefined;
  if (!chat.marks) throw unsupported(`"${name}" does not support thinking`, "think");
  if (!/\benable_thinking\b/.test(engine.info.chatTemplate ?? "")) {
    throw unsupported(`the chat template of ${name} has no choice of thinking; leave 'think' out`, "think");
  }
  return { enable_thinking: think !== false };
}

/** @throws ApiError (400) */
export function chatOfOllama(request: OllamaRequest, model: ServedModel): ChatRequest {
  const { format } = request;
  const { num_predict: most = -1, num_ctx: context, ...sampling } = request.options ?? {};
  const room = model.engine.info.contextPerSequence;
  if (context != null && context > room) {
    throw unsupported(
      `'options.num_ctx': the context has ${room} tokens; start the server with a larger --context`,
      "options.num_ctx",
    );
  }
  const { temperature, top_k, top_p, min_p, seed, stop } = sampling;
  return {
    ...{ model: request.model, messages: messagesOf(request), tools: request.tools },
    ...{ temperature, top_k, top_p, min_p, seed, stop },
    ...(most != null && most > 0 ? { max_completion_tokens: most } : {}),
    ...(format === "json" ? { response_format: { type: "json_object" } } : {}),
    ...(typeof format === "object" && format !== null
      ? { response_format: { type: "json_schema", json_schema: { name: "answer", schema: format } } }
      : {}),
    chat_template_kwargs: thinkingOf(request, model),
  };
}
