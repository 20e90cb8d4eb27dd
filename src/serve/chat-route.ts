/** `POST /v1/chat/completions` */
import type { SampledToken } from "../core/engine/sequence.js";
import { toJson } from "../core/util/json.js";
import { allOf, logprobsOfText, newAnswerId, nowSeconds, shown, usageOf } from "./answers.js";
import type { Reply } from "./exchange.js";
import type { Answer, ServedModel } from "./model.js";
import { type ChatRequest, writtenCall } from "./requests.js";
import { prepareTurns } from "./turns.js";

function finishOf({ stop, calls }: Answer): "stop" | "length" | "tool_calls" {
  if (stop !== "stop") return "length";
  return calls.length > 0 ? "tool_calls" : "stop";
}

const callsOf = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: args }) => writtenCall(id as string, name, toJson(args)));

/** The log-probabilities of a turn's text, token by token. */
export function tokenLogprobs({ engine }: ServedModel, sampled: readonly SampledToken[]) {
  return sampled.map(({ token, own = 0, likeliest = [] }) => ({
    ...shown(engine, token),
    logprob: own,
    top_logprobs: likeliest.map((one) => ({ ...shown(engine, one.token), logprob: one.logprob })),
  }));
}

export async function chatCompletion(model: ServedModel, request: ChatRequest, exchange: Reply): Promise<void> {
  const turns = await prepareTurns(model, request, exchange.signal);
  const { conversation, likeliest } = turns;
  const { not_enforced: _, ...hone } = turns.hone;
  const head = { id: newAnswerId("chatcmpl"), created: nowSeconds(), model: model.name };
  const about = { ...head, hone };
  const whole = { ...head, hone: turns.hone };

  const usage = (answers: readonly Answer[]) =>
    usageOf(
      conversation.length,
      answers.reduce((sum, { segment }) => sum + segment.ids.length, 0),
      Math.max(...answers.map(({ kept }) => kept)),
    );
  const ofChoice = (answer: Answer) => {
    const problems = turns.problemsOf(answer);
    return {
      finish_reason: finishOf(answer),
      logprobs:
        likeliest === undefined ? null : { content: tokenLogprobs(model, logprobsOfText(answer)), refusal: null },
      ...(request.return_token_ids ? { token_ids: [...answer.segment.ids] } : {}),
      ...(problems ? { hone: problems } : {}),
    };
  };

  const count = request.n ?? 1;
  if (!request.stream) {
    const answers = await allOf(count, model, exchange.signal, (index, signal) => turns.sample(index, signal));
    exchange.json({
      ...whole,
      object: "chat.completion",
      choices: answers.map((answer, index) => {
        const reasoning = turns.reasoningOf(answer);
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
      ...(request.return_token_ids ? { prompt_token_ids: turns.promptIds() } : {}),
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
    let saying = false;
    const answer = await turns.sample(index, signal, (delta) => {
      if (!saying) chunk(index, { role: "assistant", content: "" });
      saying = true;
      chunk(index, delta);
    });
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
