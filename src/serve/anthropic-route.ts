/** `POST /v1/messages`, and `/v1/messages/count_tokens`: Anthropic's Messages API over the turns of chats. */
import { toJson } from "../core/util/json.js";
import { newAnswerId } from "./answers.js";
import { type AnthropicRequest, type CountRequest, chatOfMessages } from "./anthropic-request.js";
import type { ErrorForm } from "./errors.js";
import type { Exchange } from "./exchange.js";
import { messagesOf, toolsOf } from "./messages.js";
import type { Answer, ServedModel } from "./model.js";
import { prepareTurns } from "./turns.js";

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  410: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error",
};

export const anthropicErrors: ErrorForm = {
  body: ({ status, message, code, param }) => ({
    type: "error",
    error: {
      type: TYPES[status] ?? "invalid_request_error",
      message,
      code,
      // Where the client asks for a thread by itself, as its tool runner does, it goes on without one.
      ...(param === "thread" ? { details: { error_code: "thread_unsupported_request", unsupported: ["thread"] } } : {}),
    },
  }),
  event: (error) => ({ name: "error", data: anthropicErrors.body(error) }),
};

/** Why a turn ended; with the stop text that ended it. */
function stopOf(model: ServedModel, { stop, stopToken, calls, segment }: Answer, stopTexts: readonly string[]) {
  if (stop !== "stop") return { stop_reason: "max_tokens", stop_sequence: null };
  if (stopToken) return { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null };
  const text = model.engine.detokenize(segment.ids, { special: true });
  const found = stopTexts.filter((one) => text.includes(one)).sort((a, b) => text.indexOf(a) - text.indexOf(b));
  return { stop_reason: "stop_sequence", stop_sequence: found[0] ?? null };
}

const callBlocks = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: input }) => ({ type: "tool_use" as const, id: id as string, name, input }));

export async function anthropicMessage(
  model: ServedModel,
  request: AnthropicRequest,
  exchange: Exchange,
): Promise<void> {
  const turns = await prepareTurns(model, chatOfMessages(request), exchange.signal);
  const { conversation, stopTexts } = turns;
  model.seats.checkRoom(1);
  const head = { id: newAnswerId("msg"), type: "message", role: "assistant", model: model.name };
  const usageOf = (kept: number, output: number) => ({
    input_tokens: conversation.length - kept,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: kept,
    output_tokens: output,
  });
  const extra = (answer: Answer) => ({
    hone: { ...turns.hone, ...turns.problemsOf(answer) },
    ...(request.return_token_ids ? { prompt_token_ids: turns.promptIds(), token_ids: [...answer.segment.ids] } : {}),
  });

  const blocksOf = (answer: Answer) => {
    const thinking = turns.reasoningOf(answer);
    const { said } = answer.read;
    return [
      ...(thinking ? [{ type: "thinking" as const, thinking, signature: "" }] : []),
      ...(said ? [{ type: "text" as const, text: said }] : []),
      ...callBlocks(answer),
    ];
  };

  if (!request.stream) {
    const answer = await turns.sample(0, exchange.signal);
    exchange.json({
      ...head,
      content: blocksOf(answer),
      ...stopOf(model, answer, stopTexts),
      usage: usageOf(answer.kept, answer.segment.ids.length),
      ...extra(answer),
    });
    return;
  }

  const send = (type: string, more: object) => exchange.event({ type, ...more }, type);
  let index = -1;
  let open: "thinking" | "text" | undefined;
  const begin = (block: object) => send("content_block_start", { index: ++index, content_block: block });
  const end = () => {
    if (open === "thinking") send("content_block_delta", { index, delta: { type: "signature_delta", signature: "" } });
    if (open) send("content_block_stop", { index });
    open = undefined;
  };
  const write = (kind: "thinking" | "text", delta: string | undefined) => {
    if (!delta) return;
    if (open !== kind) {
      end();
      begin(kind === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
      open = kind;
    }
    send("content_block_delta", { index, delta: { type: `${kind}_delta`, [kind]: delta } });
  };
  const message = { ...head, content: [], stop_reason: null, stop_sequence: null, usage: usageOf(0, 0) };
  send("message_start", { message });
  const answer = await turns.sample(0, exchange.signal, ({ content, reasoning_content: reasoning }) => {
    write("thinking", reasoning);
    write("text", content);
  });
  end();
  for (const { input, ...call } of callBlocks(answer)) {
    begin({ ...call, input: {} });
    send("content_block_delta", { index, delta: { type: "input_json_delta", partial_json: toJson(input) } });
    send("content_block_stop", { index });
  }
  const usage = usageOf(answer.kept, answer.segment.ids.length);
  send("message_delta", { delta: stopOf(model, answer, stopTexts), usage, ...extra(answer) });
  send("message_stop", {});
  exchange.end(false);
}

/** Number of tokens of a request's conversation, without a turn. @throws ApiError (400) */
export async function countTokens(model: ServedModel, request: CountRequest, exchange: Exchange): Promise<void> {
  const { messages, tools, tool_choice: choice, chat_template_kwargs: args } = chatOfMessages(request);
  const shown = choice === "none" ? [] : toolsOf(tools ?? []);
  const { length } = await model.find(messagesOf(messages), shown, model.chatWith(args), exchange.signal);
  exchange.json({ input_tokens: length });
}
