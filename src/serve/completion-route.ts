/** `POST /v1/completions`: completes a text, or given tokens. */
import { setImmediate } from "node:timers/promises";
import type { SampledTurn } from "../rollout/index.js";
import {
  allOf,
  logprobsOfText,
  newAnswerId,
  nowSeconds,
  promptIdsOf,
  samplingOf,
  shown,
  stopTextsOf,
  usageOf,
} from "./answers.js";
import { withoutBeginning } from "./deltas.js";
import type { Exchange } from "./exchange.js";
import type { ServedModel } from "./model.js";
import type { CompletionRequest } from "./requests.js";

/** OpenAI's default. */
const MAX_TOKENS = 16;

/**
 * Token ids are used unchanged.
 *
 * @throws ApiError (400) for the first prompt that does not fit the context
 */
async function promptsOf(model: ServedModel, { prompt }: CompletionRequest, signal: AbortSignal): Promise<number[][]> {
  const several = Array.isArray(prompt) && typeof prompt[0] !== "number" ? (prompt as (string | number[])[]) : null;
  const prompts: number[][] = [];
  for (const one of several ?? [prompt as string | number[]]) {
    // Other requests have their turn between long lists of prompts.
    if (prompts.length > 0) await setImmediate();
    const ids = typeof one === "string" ? await promptIdsOf(model, one, signal) : one;
    model.checkPrompt(ids);
    prompts.push(ids);
  }
  return prompts;
}

function logprobsOf({ engine }: ServedModel, turn: SampledTurn) {
  const sampled = logprobsOfText(turn);
  const tokens = sampled.map(({ token }) => shown(engine, token).token);
  const ends = tokens.map((_, index) => tokens.slice(0, index + 1).join("").length);
  return {
    tokens,
    token_logprobs: sampled.map(({ own = 0 }) => own),
    top_logprobs: sampled.map(({ likeliest = [] }) =>
      Object.fromEntries(likeliest.map((one) => [shown(engine, one.token).token, one.logprob])),
    ),
    text_offset: [0, ...ends].slice(0, tokens.length),
  };
}

export async function completion(model: ServedModel, request: CompletionRequest, exchange: Exchange): Promise<void> {
  model.checkOptions(request);
  const prompts = await promptsOf(model, request, exchange.signal);
  const seed = model.requestSeed(request);
  const stopTexts = stopTextsOf(request);
  const each = request.n ?? 1;
  const head = { id: newAnswerId("cmpl"), object: "text_completion", created: nowSeconds(), model: model.name };
  const about = { ...head, hone: { seed } };
  const promptOf = (index: number) => prompts[Math.floor(index / each)] as number[];

  const ask = (index: number, signal: AbortSignal, onText?: (text: string) => void) =>
    model.complete(promptOf(index), {
      sampling: samplingOf(request, seed, index % each),
      maxTokens: request.max_tokens ?? MAX_TOKENS,
      stopTexts,
      likeliest: request.logprobs ?? undefined,
      signal,
      onText,
    });
  const ofChoice = (turn: SampledTurn, index: number) => ({
    finish_reason: turn.stop === "stop" ? "stop" : "length",
    logprobs: request.logprobs == null ? null : logprobsOf(model, turn),
    ...(request.return_token_ids ? { token_ids: [...turn.segment.ids], prompt_token_ids: promptOf(index) } : {}),
  });
  const usage = (turns: readonly SampledTurn[]) => {
    const sum = (lengths: number[]) => lengths.reduce((total, length) => total + length, 0);
    return usageOf(sum(prompts.map(({ length }) => length)), sum(turns.map(({ segment }) => segment.ids.length)), 0);
  };

  const count = prompts.length * each;
  if (!request.stream) {
    const turns = await allOf(count, model, exchange.signal, (index, signal) => ask(index, signal));
    const choices = turns.map((turn, index) => ({ index, text: turn.text, ...ofChoice(turn, index) }));
    exchange.json({ ...about, choices, usage: usage(turns) });
    return;
  }
  const withUsage = request.stream_options?.include_usage === true;
  const chunk = (index: number, text: string, more: object = {}) =>
    exchange.event({
      ...about,
      choices: [{ index, text, logprobs: null, finish_reason: null, ...more }],
      ...(withUsage ? { usage: null } : {}),
    });
  const turns = await allOf(count, model, exchange.signal, async (index, signal) => {
    let sent = 0;
    const send = (text: string) => {
      if (text.length > sent) chunk(index, text.slice(sent));
      sent = Math.max(sent, text.length);
    };
    const turn = await ask(index, signal, (text) => send(withoutBeginning(text, stopTexts)));
    send(turn.text);
    chunk(index, "", ofChoice(turn, index));
    return turn;
  });
  if (withUsage) exchange.event({ ...about, choices: [], usage: usage(turns) });
  exchange.end();
}
