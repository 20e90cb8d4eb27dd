/** `POST /tokenize` and `POST /detokenize`, as in vLLM. */
import { z } from "zod";
import { tokenizeWithin } from "../engine/tokenize-within.js";
import { promptIdsOf, shown } from "./answers.js";
import type { Exchange } from "./exchange.js";
import { messagesOf, toolsOf } from "./messages.js";
import type { ServedModel } from "./model.js";
import { idsOf } from "./recorder.js";
import { chatMessages, chatTools, ids, only, parse, templateArgs } from "./requests.js";

const common = { model: z.string().min(1).nullish(), return_token_strs: z.boolean().nullish() };

const ofText = z.strictObject({ ...common, prompt: z.string().min(1), add_special_tokens: z.boolean().nullish() });

const ofChat = z.strictObject({
  ...common,
  messages: chatMessages,
  tools: chatTools.nullish(),
  chat_template_kwargs: templateArgs,
  add_generation_prompt: z.literal(true, only("true", "the tokens are those before the model's turn")).nullish(),
  add_special_tokens: z.literal(false, only("false", "the chat template writes them")).nullish(),
  continue_final_message: z.literal(false, only("false", "a message is whole")).nullish(),
});

const ofTokens = z.strictObject({ model: common.model, tokens: ids });

export type TokenizeRequest = z.output<typeof ofText> | z.output<typeof ofChat>;
export type DetokenizeRequest = z.output<typeof ofTokens>;

/** @throws ApiError (400) for anything unsupported */
export function readTokenizeRequest(body: unknown): TokenizeRequest {
  const isChat = typeof body === "object" && body !== null && "messages" in body;
  return isChat ? parse(ofChat, body) : parse(ofText, body);
}

/** @throws ApiError (400) for anything unsupported */
export const readDetokenizeRequest = (body: unknown): DetokenizeRequest => parse(ofTokens, body);

async function tokensOf(model: ServedModel, request: TokenizeRequest, signal: AbortSignal): Promise<number[]> {
  if ("prompt" in request) {
    const { prompt, add_special_tokens: special } = request;
    if (special !== false) return promptIdsOf(model, prompt, signal);
    const found = await tokenizeWithin(model.engine, prompt, { special: true, most: Infinity, signal });
    return [...(found as Int32Array)];
  }
  const tools = toolsOf(request.tools ?? []);
  const chat = model.chatWith(request.chat_template_kwargs);
  const { point, append } = await model.find(messagesOf(request.messages), tools, chat, signal);
  return [...idsOf(point), ...append];
}

export async function tokenize(model: ServedModel, request: TokenizeRequest, exchange: Exchange): Promise<void> {
  const tokens = await tokensOf(model, request, exchange.signal);
  exchange.json({
    count: tokens.length,
    max_model_len: model.engine.info.contextPerSequence,
    tokens,
    token_strs: request.return_token_strs ? tokens.map((id) => shown(model.engine, id).token) : null,
  });
}

export function detokenize(model: ServedModel, { tokens }: DetokenizeRequest, exchange: Exchange): void {
  model.checkTokens(tokens, "tokens");
  exchange.json({ prompt: model.engine.detokenize(tokens, { special: true }) });
}
