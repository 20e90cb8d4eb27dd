/** What hone asks of a vLLM server, and how its answers are read: token ids in, ids and log-probabilities out. */
import { z } from "zod";
import type { Sampling } from "../../core/engine/sequence.js";
import { HoneError } from "../../core/util/errors.js";
import { type Answer, type AskOptions, type HttpClient, NoAnswer } from "../http.js";

/** The version that hone starts, and was tested with. */
export const VLLM_VERSION = "0.32.0";

/** Seconds for what a server answers without computing. */
const SOON = { seconds: 60 };
/** Bytes of an answer at most: for each token of prompt and turn, and besides. */
const TOKEN_BYTES = 1024;
const OTHER_BYTES = 1_048_576;
/** Rounding of a log-probability above 0. */
const ABOVE = 1e-3;
/** Failures of a server that answers, at one request: it may be at fault itself, and nothing else would ever end it. */
const MOST_FAILURES = 5;

/** The server is not there, or broken: what was asked may be asked of another one. */
export class ServerLost extends Error {}

/** The server is there, and does not know the adapter: it was started again. */
class AdapterUnknown extends ServerLost {}

/** The server answers with a failure of its own, or of one behind it. */
class ServerFailed extends ServerLost {}

/** The failures of one request that is asked again where a server is lost. */
export class Failures {
  /** By server, since a gateway that is away for a moment fails them all at once. */
  readonly #counts = new Map<HttpClient, number>();

  /** @throws HoneError for the last failure of a server that answers; any other error than a lost server */
  add(error: unknown, client: HttpClient): void {
    if (!(error instanceof ServerLost)) throw error;
    if (!(error instanceof ServerFailed)) return;
    const count = (this.#counts.get(client) ?? 0) + 1;
    this.#counts.set(client, count);
    if (count < MOST_FAILURES) return;
    const why = `vLLM at ${client.url} has failed ${count} times at one request; at last it answers ${error.message}`;
    throw new HoneError(why, { cause: error });
  }
}

const modelsSchema = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      parent: z.string().nullish(),
      root: z.string().nullish(),
      max_model_len: z.number().nullish(),
    }),
  ),
});

const completionSchema = z.object({
  choices: z.tuple([
    z.object({
      finish_reason: z.string().nullish(),
      token_ids: z.array(z.number().int().nonnegative()).nullish(),
      prompt_token_ids: z.array(z.number().int().nonnegative()).nullish(),
      logprobs: z.object({ token_logprobs: z.array(z.number().nullable()) }).nullish(),
      prompt_logprobs: z.array(z.record(z.string(), z.object({ logprob: z.number() })).nullable()).nullish(),
    }),
  ]),
});

const tokenizedSchema = z.object({ tokens: z.array(z.number()) });

const errorSchema = z.object({ error: z.object({ message: z.string() }) });

/** The server's own words for a refusal, in one line. */
export function refusalIn({ status, text }: Answer): string {
  let said = text;
  try {
    const parsed = errorSchema.safeParse(JSON.parse(text));
    if (parsed.success) said = parsed.data.error.message;
  } catch {
    // Not every answer of a proxy, or of another program, is JSON.
  }
  return `${status}: ${said.replace(/[\s\p{Cc}]+/gu, " ").slice(0, 300)}`;
}

/** @throws ServerLost when it does not answer, or with a failure of its own; HoneError for an answer that is too long */
export async function ask(client: HttpClient, path: string, body?: object, options?: AskOptions): Promise<Answer> {
  let answer: Answer;
  try {
    answer = await client.ask(path, body, options);
  } catch (error) {
    if (error instanceof NoAnswer) throw new ServerLost(error.message, { cause: error });
    throw error;
  }
  // A gateway's answers for a server that is not there; vLLM's own when its engine has died.
  if ([502, 503, 504].includes(answer.status)) throw new ServerFailed(refusalIn(answer));
  return answer;
}

function read<T>(schema: z.ZodType<T>, { text }: Answer, what: string): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new HoneError(`the server's ${what} cannot be read; is it vLLM?`, { cause: error });
  }
}

export interface ServedModels {
  /** The name of the base model. */
  readonly base: string;
  /** Tokens of a sequence at most. */
  readonly maxLength: number;
  /** Names of adapters. */
  readonly adapters: readonly string[];
}

/** @throws HoneError when the answer is not vLLM's */
export async function models(client: HttpClient, options?: AskOptions): Promise<ServedModels> {
  const answer = await ask(client, "/v1/models", undefined, { ...SOON, ...options });
  if (answer.status !== 200) throw new HoneError(`it answers ${refusalIn(answer)}`);
  const { data } = read(modelsSchema, answer, "list of models");
  const base = data.find(({ parent }) => parent === null || parent === undefined);
  if (base?.max_model_len == null) throw new HoneError("it does not say how long its sequences are; is it vLLM?");
  return {
    base: base.id,
    maxLength: base.max_model_len,
    adapters: data.flatMap(({ id, parent }) => (parent === null || parent === undefined ? [] : [id])),
  };
}

/** Ids of a text by the server's tokenizer. */
export async function tokenized(client: HttpClient, model: string, text: string): Promise<readonly number[]> {
  const answer = await ask(client, "/tokenize", { model, prompt: text, add_special_tokens: false }, SOON);
  if (answer.status !== 200) throw new HoneError(`it does not tokenize: ${refusalIn(answer)}; is it vLLM?`);
  return read(tokenizedSchema, answer, "tokens").tokens;
}

/** The text of a page of its own, such as its metrics, with which nothing is wrong where it is missing. */
export const page = async (client: HttpClient, path: string): Promise<string> =>
  (await ask(client, path, undefined, SOON)).text;

export interface Asked {
  readonly model: string;
  readonly prompt: readonly number[];
  /** Distinguishes cached prefixes of adapters. */
  readonly salt: string;
  readonly maxTokens: number;
  /** Every field is sent: a server's own defaults count for nothing. */
  readonly sampling: Sampling;
  readonly stop: readonly number[];
  /** Number of the model's tokens. */
  readonly vocabularySize: number;
}

export interface Completed {
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
  /** Of the prompt, as the server says it had it. */
  readonly prompt?: readonly number[];
}

const FIXED = {
  n: 1,
  stream: false,
  logprobs: 0,
  return_token_ids: true,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  min_tokens: 0,
  // Without it the model's own list of end tokens would end a turn too.
  ignore_eos: true,
  skip_special_tokens: false,
  add_special_tokens: false,
} as const;

/**
 * Samples a turn.
 * @throws ServerLost, AdapterUnknown
 * @throws HoneError when the server refuses, or answers what cannot be
 */
export async function complete(client: HttpClient, asked: Asked, options?: AskOptions): Promise<Completed> {
  const { temperature = 1, topK = 0, topP = 1, minP = 0, seed } = asked.sampling;
  const body = {
    ...FIXED,
    model: asked.model,
    prompt: asked.prompt,
    cache_salt: asked.salt,
    max_tokens: asked.maxTokens,
    temperature,
    top_k: topK,
    top_p: topP,
    min_p: minP,
    seed,
    stop_token_ids: asked.stop,
  };
  return completion(client, body, asked, options);
}

/** Samples with whatever the server's defaults are, but for the number of tokens. */
export function completeByDefault(
  client: HttpClient,
  { model, prompt, maxTokens, sampling: { seed }, vocabularySize }: Omit<Asked, "salt" | "stop">,
): Promise<Completed> {
  const body = { model, prompt, max_tokens: maxTokens, seed, logprobs: 0, return_token_ids: true, ignore_eos: true };
  return completion(client, body, { prompt, maxTokens, stop: [], vocabularySize });
}

async function completion(
  client: HttpClient,
  body: object,
  asked: Pick<Asked, "prompt" | "maxTokens" | "stop" | "vocabularySize">,
  options?: AskOptions,
): Promise<Completed> {
  const { prompt: given, maxTokens, stop, vocabularySize } = asked;
  const {
    finish_reason: finish,
    token_ids: tokens,
    prompt_token_ids: prompt,
    logprobs,
  } = await choice(client, body, given.length + maxTokens, options);
  const values = logprobs?.token_logprobs;
  if (!tokens || !values || values.length !== tokens.length || !values.every((value) => value !== null)) {
    throw new HoneError("the server names no log-probability for each sampled token; is it vLLM 0.32 or newer?");
  }
  // Its own end, or somebody's request: what was sampled is no whole turn.
  if (finish === "abort") throw new ServerLost("it has broken off a turn");
  const wrong = (what: string) => new HoneError(`the server answers what cannot be: ${what}`);
  if (tokens.length > maxTokens)
    throw wrong(`${tokens.length} sampled tokens, where ${maxTokens} at most were asked for`);
  const unknown = [...tokens, ...(prompt ?? [])].find((token) => token >= vocabularySize);
  if (unknown !== undefined) throw wrong(`the token ${unknown}, of a model with ${vocabularySize}`);
  const early = tokens.findIndex((token) => stop.includes(token));
  if (early >= 0 && early < tokens.length - 1)
    throw wrong(`${tokens.length - 1 - early} tokens behind one that ends a turn`);
  const impossible = values.find((value) => !isLogprob(value as number));
  if (impossible !== undefined) throw wrong(`a log-probability of ${impossible}`);
  if (prompt && prompt.length !== given.length) {
    throw wrong(`a prompt of ${prompt.length} tokens, where ${given.length} were sent`);
  }
  return { tokens, logprobs: values as number[], ...(prompt ? { prompt } : {}) };
}

/** Also in 32 bits. */
const isLogprob = (value: number) => value <= ABOVE && Number.isFinite(Math.fround(value));

/**
 * Log-probabilities of a prompt's tokens under the raw softmax, from the one at `from` on.
 * @throws ServerLost, AdapterUnknown
 * @throws HoneError when the server refuses
 */
export async function score(
  client: HttpClient,
  { model, salt }: Pick<Asked, "model" | "salt">,
  tokens: readonly number[],
  from: number,
  options?: AskOptions,
): Promise<Float32Array> {
  const body = {
    model,
    prompt: tokens,
    cache_salt: salt,
    max_tokens: 1,
    temperature: 1,
    prompt_logprobs: 0,
    ignore_eos: true,
  };
  const { prompt_logprobs: given } = await choice(client, body, tokens.length, options);
  const scores = tokens.slice(from).map((token, i) => given?.[from + i]?.[String(token)]?.logprob);
  if (!scores.every((value) => value !== undefined && isLogprob(value))) {
    throw new HoneError("the server gives no log-probabilities of a prompt's tokens; is it vLLM?");
  }
  return Float32Array.from(scores as number[]);
}

async function choice(client: HttpClient, body: object, tokens: number, options?: AskOptions) {
  const most = OTHER_BYTES + TOKEN_BYTES * tokens;
  const answer = await ask(client, "/v1/completions", body, { ...options, most });
  if (answer.status === 404) throw new AdapterUnknown(refusalIn(answer));
  if (answer.status === 500) throw new ServerFailed(refusalIn(answer));
  if (answer.status !== 200) throw new HoneError(`the server answers ${refusalIn(answer)}`);
  return read(completionSchema, answer, "answer").choices[0];
}

/** @returns undefined when it is loaded, else the refusal */
export async function loadAdapter(client: HttpClient, name: string, path: string) {
  const answer = await ask(client, "/v1/load_lora_adapter", { lora_name: name, lora_path: path });
  return answer.status === 200 ? undefined : answer;
}

/** The server's acknowledgement: that it has no adapter of this name any more. */
export async function unloadAdapter(client: HttpClient, name: string, options?: AskOptions): Promise<boolean> {
  const { status } = await ask(client, "/v1/unload_lora_adapter", { lora_name: name }, options);
  return status === 200 || status === 404;
}
