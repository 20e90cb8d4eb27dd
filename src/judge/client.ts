/**
 * The judge's server: questions in, texts out. Asks again after what passes (busy, broken, slow), waits when the server
 * is down, keeps within limits and the purse, and counts every request that was sent. What a text means is not its
 * business.
 */
import { setMaxListeners } from "node:events";
import type OpenAI from "openai";
import { z } from "zod";
import { type ChatServer, chatClient, chatErrorText } from "../util/chat-api.js";
import { HoneError } from "../util/errors.js";
import { Random } from "../util/random.js";
import { classify, type Droppable, type Failure, Lost } from "./failures.js";
import { type Admission, type Clock, type LimitSettings, Limits, realClock } from "./limits.js";
import { costOf, type Price } from "./prices.js";
import { estimateTokens } from "./tokens.js";

export interface ClientSettings extends ChatServer, LimitSettings {
  readonly model: string;
  /** Sent only when set: some models take none. */
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  /** Seconds one request may take. */
  readonly timeout: number;
  /** Seconds to wait for a server that answers nobody. */
  readonly patience: number;
  readonly price: Price | null;
  /** Dollars; undefined is no cap. */
  readonly maxCost: number | undefined;
  /** Told what a user should know: a server that is down, a parameter that was dropped. */
  readonly say: (text: string) => void;
}

export interface JudgeMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface JudgeQuestion {
  readonly messages: readonly JudgeMessage[];
  /** Form of the answer, for servers that can be held to one. */
  readonly form: { readonly name: string; readonly schema: Record<string, unknown> };
}

export interface JudgeAnswer {
  readonly text: string;
  /** The server cut it at a token limit. */
  readonly cut: boolean;
}

export interface JudgeUsage {
  /** Sent, whatever came back. */
  requests: number;
  /** As the server billed them; by estimate where it does not say. */
  prompt_tokens: number;
  completion_tokens: number;
  /** Dollars; null where the model's price is not known. */
  cost: number | null;
}

/** Nobody can be asked any more: the judge stays down, refuses, or the money is spent. */
export class JudgeStopped extends HoneError {}

/** Times a question is sent before it is given up, while the server answers others. */
const ATTEMPTS = 5;
/** Seconds of the first wait between attempts; it doubles up to the longest. */
const FIRST_WAIT = 0.5;
const LONGEST_WAIT = 15;
/** Completion tokens to reckon with before any answer was seen. */
const COMPLETION_GUESS = 500;

const completionSchema = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        message: z.object({ content: z.string().nullish(), refusal: z.string().nullish() }),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

type Completion = z.output<typeof completionSchema>;

/** How strictly the answer's form is asked for: what a server does not take is not asked for again. */
type Format = "schema" | "object" | "text";

export class JudgeClient {
  readonly #settings: ClientSettings;
  readonly #api: OpenAI;
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #dropped = new Set<Droppable>();
  readonly #usage: JudgeUsage;
  #format: Format = "schema";
  /** Reasoning models have another name for it. */
  #tokenLimitName: "max_tokens" | "max_completion_tokens" = "max_tokens";
  /** Dollars that requests under way may cost, and those that were never billed may have. */
  #reserved = 0;
  #answers = 0;
  #completionTokens = 0;
  #lastAnswer = Number.NEGATIVE_INFINITY;
  #down = false;

  /** @param before what the run has spent already */
  constructor(settings: ClientSettings, before: JudgeUsage = noUsage(), clock: Clock = realClock) {
    this.#settings = settings;
    this.#api = chatClient(settings, 0);
    this.#limits = new Limits(settings, clock);
    this.#clock = clock;
    this.#usage = { ...before, cost: settings.price ? (before.cost ?? 0) : null };
  }

  get model(): string {
    return this.#settings.model;
  }

  get url(): string {
    return this.#settings.url;
  }

  /** What was sent and billed so far. */
  usage(): JudgeUsage {
    return { ...this.#usage };
  }

  /** What an answer depends on beside the question. */
  identity(): readonly unknown[] {
    const { url, model, temperature, maxTokens } = this.#settings;
    return [url, model, temperature ?? null, maxTokens ?? null];
  }

  /**
   * @throws Lost when this question gets no answer
   * @throws JudgeStopped when no question can
   */
  async ask(question: JudgeQuestion, signal: AbortSignal): Promise<JudgeAnswer> {
    const stop = new AbortController();
    const abort = () => stop.abort(this.#stop.signal.aborted ? this.#stop.signal.reason : signal.reason);
    // Every open question listens: many listeners are no leak.
    setMaxListeners(0, signal, this.#stop.signal);
    signal.addEventListener("abort", abort, { once: true });
    this.#stop.signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted || this.#stop.signal.aborted) abort();
    try {
      return await this.#askUntil(question, stop.signal);
    } finally {
      signal.removeEventListener("abort", abort);
      this.#stop.signal.removeEventListener("abort", abort);
    }
  }

  async #askUntil(question: JudgeQuestion, signal: AbortSignal): Promise<JudgeAnswer> {
    const started = this.#clock.now();
    const random = new Random("judge-wait", question.messages.at(-1)?.content ?? "");
    let failed = 0;
    for (;;) {
      const format = this.#format;
      const request = this.#request(question);
      const { answer, failure, text } = await this.#attempt(request, signal);
      if (answer) return answer;
      if (failure.kind === "fatal") throw this.#giveUp(`${text}; ${failure.hint}`);
      if (failure.kind === "lost") throw new Lost(failure.reason, text);
      if (failure.kind === "unsupported") {
        this.#drop(failure.parameter, format, text);
        continue;
      }
      failed++;
      this.#checkPatience(failure, failed, started, text);
      const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failed - 1));
      const wait = failure.after ?? 1000 * longest * (0.5 + 0.5 * random.float());
      // A server that says when is believed for everybody.
      if (failure.after !== undefined) this.#limits.pause(Math.min(wait, 1000 * this.#settings.patience));
      else await this.#clock.sleep(wait, signal);
    }
  }

  /** Is it worth another try? Throws when it is not. */
  #checkPatience(failure: Failure & { kind: "retry" }, failed: number, started: number, text: string): void {
    const { patience } = this.#settings;
    const now = this.#clock.now();
    const answersOthers = this.#lastAnswer > started;
    const silent = (now - Math.max(started, this.#lastAnswer)) / 1000;
    if (answersOthers) {
      // Being told to wait is no failure of the question, as long as the waiting has an end.
      const enough = failure.reason === "rate_limited" ? (now - started) / 1000 > patience : failed >= ATTEMPTS;
      if (enough) throw new Lost(failure.reason, text);
    } else if (silent > patience) {
      throw this.#giveUp(`it has not answered for ${silent.toFixed(0)} s (--judge-patience): ${text}`);
    } else if (failed >= 2 && failure.reason !== "rate_limited" && !this.#down) {
      this.#down = true;
      this.#settings.say(`the judge at ${this.#settings.url} does not answer (${text}); waiting up to ${patience} s`);
    }
  }

  /** Ends all questions, also those that wait for an answer. */
  #giveUp(why: string): JudgeStopped {
    const stopped = this.#stopped(why);
    this.#stop.abort(stopped);
    return stopped;
  }

  #stopped(why: string): JudgeStopped {
    const { model, url } = this.#settings;
    return new JudgeStopped(`the judge ${model} at ${url} cannot be asked: ${why}`);
  }

  #drop(parameter: Droppable, format: Format, why: string): void {
    const { say } = this.#settings;
    if (parameter === "response_format") {
      // Another request may have found out at the same time.
      if (format !== this.#format) return;
      this.#format = format === "schema" ? "object" : "text";
      if (this.#format === "text") this.#dropped.add("response_format");
      const now = this.#format === "text" ? "plain text" : "JSON without a schema";
      say(`the judge does not take response_format ${formatName[format]} (${why}); asking for ${now} from now on`);
    } else if (
      parameter === "max_tokens" &&
      /max_completion_tokens/.test(why) &&
      this.#tokenLimitName === "max_tokens"
    ) {
      this.#tokenLimitName = "max_completion_tokens";
      say(`the judge does not take max_tokens (${why}); sending max_completion_tokens from now on`);
    } else if (!this.#dropped.has(parameter)) {
      this.#dropped.add(parameter);
      say(`the judge does not take ${parameter} (${why}); not sent from now on`);
    }
  }

  #request({ messages, form }: JudgeQuestion): OpenAI.ChatCompletionCreateParamsNonStreaming {
    const { model, temperature, maxTokens } = this.#settings;
    const sends = (parameter: Droppable, value: unknown) => value !== undefined && !this.#dropped.has(parameter);
    return {
      model,
      messages: messages.map((message) => ({ ...message })),
      ...(sends("temperature", temperature) ? { temperature: temperature as number } : {}),
      ...(sends("max_tokens", maxTokens) ? { [this.#tokenLimitName]: maxTokens as number } : {}),
      ...(this.#format === "schema"
        ? { response_format: { type: "json_schema" as const, json_schema: { ...form, strict: true } } }
        : this.#format === "object"
          ? { response_format: { type: "json_object" as const } }
          : {}),
    };
  }

  /** Sends one request and books it. */
  async #attempt(
    request: OpenAI.ChatCompletionCreateParamsNonStreaming,
    signal: AbortSignal,
  ): Promise<
    | { answer: JudgeAnswer; failure?: undefined; text?: undefined }
    | { answer?: undefined; failure: Failure; text: string }
  > {
    const prompt = estimateTokens(JSON.stringify(request.messages));
    const admission = await this.#limits.enter(prompt + this.#usualCompletion(), signal);
    const reserved = this.#reserve(prompt, admission);
    const timeout = new AbortController();
    const abort = () => timeout.abort();
    const timer = setTimeout(abort, 1000 * this.#settings.timeout);
    signal.addEventListener("abort", abort, { once: true });
    let billed = false;
    try {
      const completion = await this.#api.chat.completions.create(request, { signal: timeout.signal });
      const parsed = completionSchema.safeParse(completion);
      this.#usage.requests++;
      billed = true;
      if (!parsed.success) {
        admission.billed(prompt);
        const failure = { kind: "retry", reason: "bad_response", sent: true, after: undefined } as const;
        return { failure, text: "its answer is no chat completion" };
      }
      this.#book(parsed.data, prompt, admission);
      return { answer: readAnswer(parsed.data) };
    } catch (error) {
      if (error instanceof Lost) throw error;
      const sent = new Set<Droppable>((["temperature", "response_format"] as const).filter((name) => name in request));
      if (this.#tokenLimitName in request) sent.add("max_tokens");
      const failure = classify(error, timeout.signal.aborted, sent);
      if (!(failure.kind === "retry" && !failure.sent)) this.#usage.requests++;
      signal.throwIfAborted();
      // A refusal costs nothing; what was cut off or took too long may be on the bill, though nobody will say so.
      billed = failure.kind !== "retry" || failure.reason === "rate_limited" || failure.reason === "server_error";
      const seconds = this.#settings.timeout;
      const timedOut = failure.kind === "retry" && failure.reason === "timeout";
      return {
        failure,
        text: timedOut ? `no answer within ${seconds} s` : chatErrorText(error, this.#settings.key),
      };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      if (billed) this.#reserved -= reserved;
      admission.leave();
    }
  }

  /** Dollars that a request may cost. Throws when there are not as many left. */
  #reserve(promptTokens: number, admission: Admission): number {
    const { price, maxCost } = this.#settings;
    if (!price) return 0;
    const most = costOf(price, promptTokens, this.#usualCompletion());
    const spent = this.#usage.cost ?? 0;
    if (maxCost !== undefined && spent + this.#reserved + most > maxCost) {
      admission.leave();
      // Requests under way are paid for: their answers are still wanted.
      throw this.#stopped(
        `it has cost $${spent.toFixed(4)}, and the next request could pass the $${maxCost} that --judge-max-cost allows; raise it to go on`,
      );
    }
    this.#reserved += most;
    return most;
  }

  #usualCompletion(): number {
    const { maxTokens = COMPLETION_GUESS } = this.#settings;
    return this.#answers === 0 ? maxTokens : Math.ceil(this.#completionTokens / this.#answers);
  }

  #book({ usage, choices }: Completion, promptEstimate: number, admission: Admission): void {
    const prompt = usage?.prompt_tokens ?? promptEstimate;
    const completion = usage?.completion_tokens ?? estimateTokens(choices[0]?.message.content ?? "");
    this.#usage.prompt_tokens += prompt;
    this.#usage.completion_tokens += completion;
    const { price } = this.#settings;
    if (price) this.#usage.cost = (this.#usage.cost ?? 0) + costOf(price, prompt, completion);
    admission.billed(prompt + completion);
    this.#answers++;
    this.#completionTokens += completion;
    this.#lastAnswer = this.#clock.now();
    if (this.#down) this.#settings.say(`the judge at ${this.#settings.url} answers again`);
    this.#down = false;
  }
}

const formatName = { schema: "json_schema", object: "json_object", text: "text" } as const;

export function noUsage(): JudgeUsage {
  return { requests: 0, prompt_tokens: 0, completion_tokens: 0, cost: null };
}

/** @throws Lost when the judge refuses */
function readAnswer({ choices }: Completion): JudgeAnswer {
  const [choice] = choices;
  const { content, refusal } = choice?.message ?? {};
  if (refusal || choice?.finish_reason === "content_filter") {
    throw new Lost("refused", `the judge refuses: ${refusal ?? "its server filtered the answer"}`);
  }
  return { text: content ?? "", cut: choice?.finish_reason === "length" };
}
