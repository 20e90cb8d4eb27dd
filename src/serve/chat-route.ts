/** `POST /v1/chat/completions` */
import type { SampledToken } from "../engine/index.js";
import { toJson } from "../util/index.js";
import { allOf, logprobsOfText, newAnswerId, nowSeconds, samplingOf, shown, stopTextsOf, usageOf } from "./answers.js";
import { demandsOf, formOf } from "./constrain.js";
import { type Delta, Deltas, reasoningOf } from "./deltas.js";
import type { Exchange } from "./exchange.js";
import { callFormOf, formatOf } from "./formats.js";
import { messagesOf, toolsOf } from "./messages.js";
import type { Answer, Conversation, ServedModel } from "./model.js";
import { idsOf } from "./recorder.js";
import type { ChatRequest } from "./requests.js";

function finishOf({ stop, calls }: Answer): "stop" | "length" | "tool_calls" {
  if (stop !== "stop") return "length";
  return calls.length > 0 ? "tool_calls" : "stop";
}

const callsOf = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: args }) => ({
    id: id as string,
    type: "function" as const,
    function: { name, arguments: toJson(args) },
  }));

function logprobsOf(model: ServedModel, sampled: readonly SampledToken[]) {
  const { engine } = model;
  return {
    content: sampled.map(({ token, own = 0, likeliest = [] }) => ({
      ...shown(engine, token),
      logprob: own,
      top_logprobs: likeliest.map((one) => ({ ...shown(engine, one.token), logprob: one.logprob })),
    })),
    refusal: null,
  };
}

/** hone's extension of OpenAI's answer: how the request's conversation was continued. */
const extension = ({ point, rewritten }: Conversation, seed: number) => ({
  continued: point !== null,
  history_rewritten: rewritten,
  seed,
});

export async function chatCompletion(model: ServedModel, request: ChatRequest, exchange: Exchange): Promise<void> {
  model.checkOptions(request);
  // Where nothing is enforced, each choice tells whether it has the form.
  const format = model.enforces ? undefined : formatOf(request.response_format);
  const callForm = model.enforces ? undefined : callFormOf(request);
  const tools = request.tool_choice === "none" ? [] : toolsOf(request.tools ?? []);
  const messages = messagesOf(request.messages);
  const form = model.enforces ? formOf(request, model.chat) : undefined;
  const notEnforced = model.enforces ? (form?.notEnforced ?? []) : demandsOf(request);
  model.noteUnenforced(notEnforced);
  const conversation = await model.converse(messages, tools, "", exchange.signal);
  const seed = model.requestSeed(request);
  const stopTexts = stopTextsOf(request);
  const wants = request.logprobs ? (request.top_logprobs ?? 0) : undefined;
  const maxTokens = Math.min(request.max_completion_tokens ?? Infinity, request.max_tokens ?? Infinity);
  const head = { id: newAnswerId("chatcmpl"), created: nowSeconds(), model: model.name };
  const hone = extension(conversation, seed);
  const about = { ...head, hone };
  const whole = { ...about, hone: notEnforced.length > 0 ? { ...hone, not_enforced: notEnforced } : hone };
  const promptIds = () => [...idsOf(conversation.point), ...conversation.append];

  const ask = (index: number, signal: AbortSignal, onText?: (text: string) => void) =>
    model.answer(conversation, {
      sampling: samplingOf(request, seed, index),
      maxTokens: maxTokens === Infinity ? undefined : maxTokens,
      stopTexts,
      likeliest: wants,
      grammar: form?.grammar,
      format,
      signal,
      onText,
    });
  const usage = (answers: readonly Answer[]) =>
    usageOf(
      conversation.length,
      answers.reduce((sum, { segment }) => sum + segment.ids.length, 0),
      Math.max(...answers.map(({ kept }) => kept)),
    );
  const problemsOf = ({ read }: Answer) => ({
    ...(format ? { schema_problem: format(read.said) ?? null } : {}),
    ...(callForm ? { call_problem: callForm(read.calls) ?? null } : {}),
  });
  const ofChoice = (answer: Answer) => ({
    finish_reason: finishOf(answer),
    logprobs: wants === undefined ? null : logprobsOf(model, logprobsOfText(answer)),
    ...(request.return_token_ids ? { token_ids: [...answer.segment.ids] } : {}),
    ...(format || callForm ? { hone: problemsOf(answer) } : {}),
  });

  const count = request.n ?? 1;
  if (!request.stream) {
    const answers = await allOf(count, model, exchange.signal, (index, signal) => ask(index, signal));
    exchange.json({
      ...whole,
      object: "chat.completion",
      choices: answers.map((answer, index) => {
        const reasoning = reasoningOf(answer.read.thoughts, model.chat);
        const calls = callsOf(answer);
        const content = answer.read.said === "" && calls.length > 0 ? null : answer.read.said;
        const message = {
          role: "assistant",
          content,
          refusal: null,
          ...(reasoning ? { reasoning_content: reasoning } : {}),
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
        };
        return { index, message, ...ofChoice(answer) };
      }),
      usage: usage(answers),
      ...(request.return_token_ids ? { prompt_token_ids: promptIds() } : {}),
    });
    return;
  }

  const withUsage = request.stream_options?.include_usage === true;
  let begun = false;
  const chunk = (index: number, delta: object, more: object = {}) => {
    // Said once in a stream.
    const first = !begun;
    begun = true;
    exchange.event({
      ...(first ? whole : about),
      object: "chat.completion.chunk",
      choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
      ...(withUsage ? { usage: null } : {}),
    });
  };
  const answers = await allOf(count, model, exchange.signal, async (index, signal) => {
    const deltas = new Deltas(model.chat, tools.length > 0, stopTexts);
    let saying = false;
    const send = (delta: Delta) => {
      if (Object.keys(delta).length === 0) return;
      if (!saying) chunk(index, { role: "assistant", content: "" });
      saying = true;
      chunk(index, delta);
    };
    const answer = await ask(index, signal, (text) => send(deltas.push(text)));
    send(deltas.end(answer.read));
    const calls = callsOf(answer).map((call, at) => ({ index: at, ...call }));
    const delta = { ...(saying ? {} : { role: "assistant" }), ...(calls.length > 0 ? { tool_calls: calls } : {}) };
    if (calls.length > 0 || !saying) chunk(index, delta);
    chunk(index, {}, ofChoice(answer));
    return answer;
  });
  if (withUsage) {
    exchange.event({ ...about, object: "chat.completion.chunk", choices: [], usage: usage(answers) });
  }
  exchange.end();
}
