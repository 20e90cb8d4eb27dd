/** What is seen of a server before anything is played on it: that it is the model that is trained, and set up for it. */

import type { LocalEngine } from "../../core/engine/engine.js";
import { HoneError } from "../../core/util/errors.js";
import type { HttpClient } from "../http.js";
import type { ModelShape } from "../models.js";
import { type AdapterFolder, isAbandoned } from "./adapters.js";
import {
  complete,
  completeByDefault,
  loadAdapter,
  models,
  page,
  refusalIn,
  type ServedModels,
  score,
  tokenized,
  unloadAdapter,
} from "./protocol.js";
import { type AdapterType, adapterType, meanDistance } from "./rounding.js";

/** Words of several kinds: their tokens tell tokenizers apart. */
const TEXT =
  'The tide-gauge at St. John\'s read 4.75 m on 12 March; by noon, 3 of its 16 sensors (naïve ones) had failed: {"ok": false}.\n\nWhy? Nobody knew, and whoever asked was told to wait until Thursday.';
/** Tokens of it that are scored: a local engine for words has room for a few more. */
const TOKENS = 56;
/**
 * Mean distance in nats, over the fixed text, up to which a server's model is taken for ours. Weights of 4 bits are 0.05
 * apart, and tokens of a text that nobody sampled are less certain; another model is apart by more than 1.
 */
export const SAME_MODEL = 0.25;
/** Least distance between the log-probabilities of two modes by which they are told apart. */
const TOLD_APART = 0.3;
/** Connections on which a server is asked for its adapters: it has several processes if one does not know the newest. */
const CONNECTIONS = 8;

export interface Expected {
  readonly words: LocalEngine;
  readonly contextPerSequence: number;
  /** Rank of the adapters that will be loaded; undefined where none will be. */
  readonly adapterRank: number | undefined;
  readonly shape: ModelShape;
}

/** What a server that passed was seen to have. */
export interface Seen {
  readonly base: string;
  /** Of vLLM; "" where it does not say. */
  readonly version: string;
  /** Its scores of {@link fixedIds} with the base model. */
  readonly scores: Float32Array;
  /** The type in which it keeps adapters; "F32" where none will be loaded. */
  readonly adapters: AdapterType;
}

/** As many names as {@link checkServer} loads adapters. */
export type Trials = readonly [string, string, string, string];

export const fixedIds = (words: LocalEngine): number[] =>
  [...words.tokenize(TEXT, { special: false })].slice(0, TOKENS);

/**
 * @param trials unused names, for adapters that are loaded and unloaded
 * @throws HoneError in one line without the server's address
 * @throws ServerLost when it does not answer
 */
export async function checkServer(
  client: HttpClient,
  expected: Expected,
  folder: AdapterFolder,
  trials: Trials,
): Promise<Seen> {
  const [trial, ...others] = trials;
  const { words, contextPerSequence, adapterRank, shape } = expected;
  const served = await models(client);
  if (served.maxLength <= contextPerSequence) {
    throw new HoneError(
      `its sequences have ${served.maxLength} tokens, and a conversation has ${contextPerSequence}: start it with --max-model-len ${contextPerSequence + 1}`,
    );
  }
  const ids = fixedIds(words);
  await checkTokenizer(client, served, words);
  const scores = await score(client, { model: served.base, salt: trial }, ids, 1);
  const ours = await words.score(Int32Array.from(ids));
  const apart = meanDistance(scores, ours);
  if (!(apart <= SAME_MODEL)) {
    throw new HoneError(
      `its model is not ours: a fixed text's log-probabilities are ${apart.toFixed(2)} nats apart on average from those of ${words.info.model}; start it with that model`,
    );
  }
  await checkMode(client, served, words, ids);
  await checkDefaults(client, served, words, ids, trial);
  const version = /"version"\s*:\s*"([^"]*)"/.exec(await page(client, "/version"))?.[1] ?? "";
  if (adapterRank === undefined) return { base: served.base, version, scores, adapters: "F32" };
  await checkAdapters(client, served, { ids, scores, rank: adapterRank, shape }, folder, trial);
  const adapters = await adapterType(client, folder, { ids, scores, shape, names: others });
  return { base: served.base, version, scores, adapters };
}

async function checkTokenizer(client: HttpClient, { base }: ServedModels, words: LocalEngine): Promise<void> {
  const tokens = await tokenized(client, base, TEXT);
  if (tokens.join() !== words.tokenize(TEXT, { special: false }).join()) {
    throw new HoneError(`its tokenizer is not that of ${words.info.model}: start it with that model`);
  }
}

/** The likeliest tokens after a prompt under the raw softmax, by our own engine. */
async function likeliest(words: LocalEngine, prompt: readonly number[]): Promise<ReadonlyMap<number, number>> {
  const sequence = words.open(Int32Array.from(prompt));
  let found: readonly { token: number; logprob: number }[] = [];
  try {
    await sequence.generate({
      maxTokens: 1,
      stop: [],
      sampling: { temperature: 0, seed: 0 },
      likeliest: Math.min(1024, words.info.vocabularySize),
      onToken: (sampled) => {
        found = sampled.likeliest ?? [];
      },
    });
  } finally {
    sequence.close();
  }
  return new Map(found.map(({ token, logprob }) => [token, logprob]));
}

/** Samples at temperature 0.5: the log-probability has to be that of the distribution that was sampled from. */
async function checkMode(client: HttpClient, { base }: ServedModels, words: LocalEngine, ids: readonly number[]) {
  for (let length = 8; length < ids.length; length += 8) {
    const prompt = ids.slice(0, length);
    const raw = await likeliest(words, prompt);
    const sharpened = Math.log([...raw.values()].reduce((sum, value) => sum + Math.exp(2 * value), 0));
    const { tokens, logprobs } = await complete(client, {
      model: base,
      prompt,
      salt: "mode",
      maxTokens: 1,
      stop: [],
      sampling: { temperature: 0.5, seed: length },
      vocabularySize: words.info.vocabularySize,
    });
    const own = raw.get(tokens[0] as number);
    if (own === undefined) continue;
    const [got, wanted] = [logprobs[0] as number, 2 * own - sharpened];
    if (Math.abs(wanted - own) < TOLD_APART) continue;
    if (Math.abs(got - wanted) < Math.abs(wanted - own) / 2) return;
    throw new HoneError(
      `its log-probabilities are not those of the distribution that it samples from (at temperature 0.5 it gives ${got.toFixed(2)} in place of ${wanted.toFixed(2)}): start it with --logprobs-mode processed_logprobs`,
    );
  }
}

/** A request that says nothing of sampling has to be sampled at temperature 1 without truncation. */
async function checkDefaults(
  client: HttpClient,
  { base }: ServedModels,
  words: LocalEngine,
  ids: readonly number[],
  salt: string,
) {
  const { vocabularySize } = words.info;
  const differences: number[] = [];
  for (let length = 8; length < ids.length; length += 12) {
    const prompt = ids.slice(0, length);
    const { tokens, logprobs } = await completeByDefault(client, {
      model: base,
      prompt,
      maxTokens: 8,
      sampling: { seed: length },
      vocabularySize,
    });
    const raw = await score(client, { model: base, salt }, [...prompt, ...tokens], length);
    differences.push(...logprobs.map((value, i) => value - (raw[i] as number)));
  }
  const mean = (of: (difference: number) => number) =>
    differences.reduce((sum, one) => sum + of(one), 0) / Math.max(1, differences.length);
  // Truncation makes every token likelier; a temperature or a penalty changes some much.
  if (mean((one) => one) < 0.02 && mean(Math.abs) < 0.1) return;
  throw new HoneError(
    "it samples by the model's generation_config where a request says nothing: start it with --generation-config vllm",
  );
}

interface Trial {
  readonly ids: readonly number[];
  readonly scores: Float32Array;
  readonly rank: number;
  readonly shape: ModelShape;
}

/** Loads an adapter of the rank that is trained, and sees it change what the model says. */
async function checkAdapters(
  client: HttpClient,
  served: ServedModels,
  { ids, scores, rank, shape }: Trial,
  folder: AdapterFolder,
  name: string,
): Promise<void> {
  folder.publishTrial(name, shape, rank);
  const refused = await loadAdapter(client, name, folder.pathOf(name));
  if (refused) throw new HoneError(whyNotLoaded(refused, rank, folder.pathOf(name)));
  try {
    const changed = await score(client, { model: name, salt: name }, ids, 1);
    if (meanDistance(changed, scores) === 0) {
      throw new HoneError("it answers with the base model when it is asked for an adapter");
    }
    for (let i = 0; i < CONNECTIONS; i++) {
      if ((await models(client, { fresh: true })).adapters.includes(name)) continue;
      throw new HoneError(
        "it has more than one API server, of which one alone has loaded the adapter: start it with --api-server-count 1, and give the address of each server itself",
      );
    }
    const most = /^vllm:lora_requests_info\{[^}]*max_lora="(\d+)"/m.exec(await page(client, "/metrics"))?.[1];
    if (most !== undefined && Number(most) < 2) {
      throw new HoneError(
        `it computes ${most} adapter at a time, and has to change from one to the next: start it with --max-loras 2`,
      );
    }
  } catch (error) {
    await unloadAdapter(client, name);
    throw error;
  }
  if (!(await unloadAdapter(client, name))) throw new HoneError("it does not unload adapters");
  for (const one of served.adapters) if (isAbandoned(one)) await unloadAdapter(client, one);
}

/** The reason in words for the user. */
export function whyNotLoaded(answer: { status: number; text: string }, rank: number | undefined, path: string): string {
  const said = refusalIn(answer);
  if (/No adapter found/i.test(said)) {
    return `it does not see the adapters' folder (${path}): name one that it sees under the same path with --engine-adapters`;
  }
  const most = /max_lora_rank[^0-9]*(\d+)/.exec(said)?.[1];
  if (/rank/i.test(said) && most !== undefined) {
    return `it takes adapters up to rank ${most}${rank === undefined ? "" : `, and these have rank ${rank}`}: start it with a larger --max-lora-rank`;
  }
  if (answer.status === 404 || answer.status === 405 || /enable.lora|lora.*not.*enabled/i.test(said)) {
    return "it loads no adapters while it runs: start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1";
  }
  return `it does not load an adapter (${said})`;
}
