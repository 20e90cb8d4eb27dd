/** `POST /v1/completions`: completes a text, or given tokens. */
import { setImmediate } from "node:timers/promises";
import type { ScoredToken } from "../core/engine/sequence.js";
import type { SampledTurn } from "../core/rollout/sample.js";
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

/** A prompt that is repeated before the answer. */
interface Echo {
  readonly ids: readonly number[];
  readonly text: string;
  /** Of all but the first token, before which there is nothing; null where no log-probabilities are asked for. */
  readonly scored: readonly ScoredToken[] | null;
}

/** @throws ApiError (400) where the engine scores no given tokens */
async function echoOf(
  model: ServedModel,
  ids: readonly number[],
  likeliest: number | null,
  signal: AbortSignal,
): Promise<Echo> {
  const text = model.engine.detokenize(ids, { special: true });
  return { ids, text, scored: likeliest === null ? null : await model.scores(ids, likeliest, signal) };
}

type Completed = Pick<SampledTurn, "text" | "stop" | "stopToken" | "tokens"> & {
  readonly segment: Pick<SampledTurn["segment"], "ids">;
};

/** A turn of no tokens. */
const nothing: Completed = {
  text: "",
  stop: "length",
  stopToken: false,
  tokens: [],
  segment: { ids: [] },
};

function logprobsOf({ engine }: ServedModel, turn: Pick<SampledTurn, "tokens" | "stopToken">, echo: Echo | undefined) {
  const first = echo ? [{ token: echo.ids[0] as number }] : [];
  const all: readonly (Pick<ScoredToken, "token"> & Partial<ScoredToken>)[] = [
    ...first,
    ...(echo?.scored ?? []),
    // lm-eval counts on one entry for each sampled token, a stop token too.
    ...(echo ? turn.tokens : logprobsOfText(turn)),
  ];
  const tokens = all.map(({ token }) => shown(engine, token).token);
  const offsets: number[] = [];
  let end = 0;
  for (const token of tokens) {
    offsets.push(end);
    end += token.length;
  }
  return {
    tokens,
    token_logprobs: all.map(({ own }) => own ?? null),
    top_logprobs: all.map(({ likeliest }) =>
      likeliest ? Object.fromEntries(likeliest.map((one) => [shown(engine, one.token).token, one.logprob])) : null,
    ),
    text_offset: offsets,
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

  const { max_tokens: maxTokens } = request;
  const ask = (index: number, signal: AbortSignal, onText?: (text: string) => void) =>
    model.complete(promptOf(index), {
      sampling: samplingOf(request, seed, index % each),
      maxTokens: maxTokens ?? MAX_TOKENS,
      stopTexts,
      likeliest: request.logprobs ?? undefined,
      signal,
      onText,
    });
  const ofChoice = (turn: Completed, index: number, echo?: Echo) => ({
    finish_reason: turn.stop === "stop" ? "stop" : "length",
    logprobs: request.logprobs == null ? null : logprobsOf(model, turn, echo),
    ...(request.return_token_ids ? { token_ids: [...turn.segment.ids], prompt_token_ids: promptOf(index) } : {}),
  });
  const usage = (turns: readonly Completed[]) => {
    const sum = (lengths: number[]) => lengths.reduce((total, length) => total + length, 0);
    return usageOf(sum(prompts.map(({ length }) => length)), sum(turns.map(({ segment }) => segment.ids.length)), 0);
  };

  const count = prompts.length * each;
  if (!request.stream) {
    // Before the turns: these begin with the KV that the scores leave behind.
    const echoes = request.echo
      ? await allOf(prompts.length, model, exchange.signal, (index, signal) =>
          echoOf(model, prompts[index] as number[], request.logprobs ?? null, signal),
        )
      : undefined;
    const turns =
      maxTokens === 0
        ? Array.from({ length: count }, () => nothing)
        : await allOf(count, model, exchange.signal, (index, signal) => ask(index, signal));
    const choices = turns.map((turn, index) => {
      const echo = echoes?.[Math.floor(index / each)];
      return { index, text: (echo?.text ?? "") + turn.text, ...ofChoice(turn, index, echo) };
    });
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
