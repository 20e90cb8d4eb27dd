/**
 * The turns that a request asks for, whatever dialect it came in: each dialect reads its requests as those of
 * /v1/chat/completions and writes what is sampled here in its own form, so that the same conversation is the same tokens.
 */
import { samplingOf, stopTextsOf } from "./answers.js";
import { demandsOf, formOf } from "./constrain.js";
import { type Delta, Deltas, reasoningOf } from "./deltas.js";
import { callFormOf, formatOf } from "./formats.js";
import { messagesOf, toolsOf } from "./messages.js";
import type { Answer, ServedModel } from "./model.js";
import { idsOf } from "./recorder.js";
import { type ChatRequest, demandedBy } from "./requests.js";

export type Turns = Awaited<ReturnType<typeof prepareTurns>>;

/** @throws ApiError (400) */
export async function prepareTurns(model: ServedModel, request: ChatRequest, signal?: AbortSignal) {
  model.checkOptions(request);
  const format = model.checksForm ? formatOf(request.response_format) : undefined;
  const callForm = model.checksForm ? callFormOf(request) : undefined;
  const tools = request.tool_choice === "none" ? [] : toolsOf(request.tools ?? []);
  const messages = messagesOf(request.messages);
  const chat = model.chatWith(request.chat_template_kwargs);
  const form = model.enforces ? formOf(request, chat) : undefined;
  const notEnforced = model.enforces ? (form?.notEnforced ?? []) : demandsOf(request);
  model.noteUnenforced(notEnforced);
  const conversation = await model.converse(messages, tools, chat, signal);
  const seed = model.requestSeed(request);
  const stopTexts = stopTextsOf(request);
  const likeliest = request.logprobs ? (request.top_logprobs ?? 0) : undefined;
  const maxTokens = Math.min(request.max_completion_tokens ?? Infinity, request.max_tokens ?? Infinity);
  const ask = (index: number, signal: AbortSignal, onText?: (text: string) => void) =>
    model.answer(conversation, {
      sampling: samplingOf(request, seed, index),
      maxTokens: maxTokens === Infinity ? undefined : maxTokens,
      stopTexts,
      likeliest,
      grammar: form?.grammar,
      format,
      callForm,
      demanded: demandedBy(request),
      signal,
      onText,
    });
  return {
    conversation,
    /** hone's extension of an answer: how the request's conversation was continued, and what was not enforced. */
    hone: {
      continued: conversation.point !== null,
      history_rewritten: conversation.rewritten,
      seed,
      ...(notEnforced.length > 0 ? { not_enforced: notEnforced } : {}),
    },
    stopTexts,
    /** Number of likeliest tokens to report; undefined: no log-probabilities. */
    likeliest,
    /** @param onDelta called with what may be sent while the turn is sampled, and with the rest at its end */
    sample: async (index: number, signal: AbortSignal, onDelta?: (delta: Delta) => void): Promise<Answer> => {
      if (!onDelta) return ask(index, signal);
      const deltas = new Deltas(chat, tools.length > 0, stopTexts);
      const send = (delta: Delta) => {
        if (Object.keys(delta).length > 0) onDelta(delta);
      };
      const answer = await ask(index, signal, (text) => send(deltas.push(text)));
      send(deltas.end(answer.read));
      return answer;
    },
    /** Whether a form of the answer, or of calls, is asked for, and answers tell of deviations. */
    checks: { format: format !== undefined, calls: callForm !== undefined },
    /** Where one is: the answer's first deviation from it. */
    problemsOf: ({ read }: Answer) =>
      format || callForm
        ? {
            ...(format ? { schema_problem: format(read.said) ?? null } : {}),
            ...(callForm ? { call_problem: callForm(read.calls) ?? null } : {}),
          }
        : undefined,
    /** The thoughts of an answer without their marks. */
    reasoningOf: ({ read }: Answer) => reasoningOf(read.thoughts, chat),
    promptIds: () => [...idsOf(conversation.point), ...conversation.append],
  };
}
