/**
 * The client of the judge's server: questions in, texts out. Repeats a request after a transient failure (busy, broken,
 * slow), waits while the server is down, keeps within the rate limits and the budget, and counts every request sent. It does
 * not interpret the texts.
 */
import { setMaxListeners } from "node:events";
import type OpenAI from "openai";
import { type ChatServer, chatClient, chatErrorText } from "../openai/index.js";
import { anyOf, HoneError, Random, TimeLimit } from "../util/index.js";
import { JudgeBudget, type JudgeBudgetSettings, type JudgeUsage, noUsage } from "./budget.js";
import { classify, type Failure, NoVerdict } from "./failures.js";
import { type Admission, type Clock, type LimitSettings, Limits, realClock } from "./limits.js";
import {
  answerIn,
  type ChatRequest,
  type Completion,
  completionSchema,
  droppableIn,
  type JudgeAnswer,
  type JudgeQuestion,
  ServerQuirks,
  type ServerQuirksSettings,
} from "./server-quirks.js";
import { estimateTokens } from "./tokens.js";

export interface ClientSettings
  extends ChatServer,
    LimitSettings,
    ServerQuirksSettings,
    Pick<JudgeBudgetSettings, "price" | "maxCost" | "others"> {
  /** Seconds that one request may take. */
  readonly timeout: number;
  /** Seconds to wait for a server that answers no request. */
  readonly patience: number;
  /** Reports a server that is down, or a parameter that was dropped. */
  readonly log: (text: string) => void;
  /** For a judge that hone runs itself. */
  readonly own?: OwnJudge | undefined;
}

export interface OwnJudge {
  /** Names its weights in place of the server's address and the model's name. */
  readonly fingerprint: string;
  /** Tokens that it reads of a question at most. */
  readonly inputTokens: number;
  /** Tokens of an answer at most; its form is held to them. */
  readonly answerTokens: number;
  /** Runs every request: it may have to wake first. */
  during<T>(work: () => Promise<T>): Promise<T>;
}

/** No question can be answered any more: the judge stays down, refuses, or the budget is spent. */
export class JudgeStopped extends HoneError {}

/** Attempts for one question before it is given up, while the server answers others. */
const ATTEMPTS = 5;
/** Seconds of the first wait between attempts; it doubles up to the longest. */
const FIRST_WAIT = 0.5;
const LONGEST_WAIT = 15;
/** Completion tokens to assume before the first answer, when no limit is set. */
const COMPLETION_GUESS = 500;

/** Outcome of one request. */
type Attempt =
  | { readonly answer: JudgeAnswer; readonly failure?: undefined }
  | { readonly answer?: undefined; readonly failure: Failure; readonly text: string };

export class JudgeClient {
  readonly #settings: ClientSettings;
  #api: Promise<OpenAI> | undefined;
  readonly #quirks: ServerQuirks;
  readonly #limits: Limits;
  readonly #budget: JudgeBudget;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  #lastAnswer = Number.NEGATIVE_INFINITY;
  #down = false;

  /** @param before cost of the run so far */
  constructor(settings: ClientSettings, before: JudgeUsage = noUsage(), clock: Clock = realClock) {
    const { price, maxCost, others, maxTokens: completionGuess = COMPLETION_GUESS } = settings;
    this.#settings = settings;
    this.#quirks = new ServerQuirks(settings);
    this.#limits = new Limits(settings, clock);
    this.#budget = new JudgeBudget({ price, maxCost, others, completionGuess }, before);
    this.#clock = clock;
  }

  /** Requests and tokens sent and billed so far. */
  usage(): JudgeUsage {
    return this.#budget.usage();
  }

  /** Dollars of its cost cap that are spent or reserved. */
  get committed(): number {
    return this.#budget.committed;
  }

  /** Settings, besides the question, that an answer depends on. */
  identity(): readonly unknown[] {
    const { url, model, temperature, maxTokens, own } = this.#settings;
    return [...(own ? ["own", own.fingerprint] : [url, model]), temperature ?? null, maxTokens ?? null];
  }

  /** Tokens that the judge reads of a question at most; Infinity where only the server knows. */
  get inputTokens(): number {
    return this.#settings.own?.inputTokens ?? Number.POSITIVE_INFINITY;
  }

  /**
   * @throws NoVerdict when this question has no answer
   * @throws JudgeStopped when no question can be answered any more
   */
  async ask(question: JudgeQuestion, signal: AbortSignal): Promise<JudgeAnswer> {
    const stop = new AbortController();
    const abort = () => stop.abort(this.#stop.signal.aborted ? this.#stop.signal.reason : signal.reason);
    // Every open question adds a listener, so their number is no leak.
    setMaxListeners(0, signal, this.#stop.signal);
    signal.addEventListener("abort", abort, { once: true });
    this.#stop.signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted || this.#stop.signal.aborted) abort();
    try {
      const asked = () => this.#askUntil(question, stop.signal);
      return await (this.#settings.own?.during(asked) ?? asked());
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
      const request = this.#quirks.request(question);
      const attempt = await this.#attempt(request, signal);
      if (attempt.answer) return attempt.answer;
      const { failure, text } = attempt;
      if (failure.kind === "fatal") throw this.#giveUp(`${text}; ${failure.hint}`);
      if (failure.kind === "no_verdict") throw new NoVerdict(failure.reason, text);
      if (failure.kind === "unsupported") {
        this.#quirks.drop(failure.parameter, request, text);
        continue;
      }
      failed++;
      this.#checkPatience(failure, failed, started, text);
      const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failed - 1));
      // Where the server named a time, all questions wait for it already.
      if (failure.after === undefined) await this.#clock.sleep(1000 * longest * (0.5 + 0.5 * random.float()), signal);
    }
  }

  /** Throws when another attempt is not worthwhile. */
  #checkPatience(failure: Failure & { kind: "retry" }, failed: number, started: number, text: string): void {
    const { patience, url, log } = this.#settings;
    const now = this.#clock.now();
    const answersOthers = this.#lastAnswer > started;
    const silent = (now - Math.max(started, this.#lastAnswer)) / 1000;
    if (answersOthers) {
      // A rate limit is no failure of the question, as long as the wait is bounded.
      const enough = failure.reason === "rate_limited" ? (now - started) / 1000 > patience : failed >= ATTEMPTS;
      if (enough) throw new NoVerdict(failure.reason, text);
    } else if (silent > patience) {
      throw this.#giveUp(`it has not answered for ${silent.toFixed(0)} s (--judge-patience): ${text}`);
    } else if (failed >= 2 && failure.reason !== "rate_limited" && !this.#down) {
      this.#down = true;
      log(`the judge at ${url} does not answer (${text}); waiting up to ${patience} s`);
    }
  }

  /** Ends all questions, also those that are waiting for an answer. */
  #giveUp(why: string): JudgeStopped {
    const stopped = this.#stopped(why);
    this.#stop.abort(stopped);
    return stopped;
  }

  #stopped(why: string): JudgeStopped {
    const { model, url } = this.#settings;
    return new JudgeStopped(`the judge ${model} at ${url} cannot be asked: ${why}`);
  }

  /** Sends one request and books its cost. */
  async #attempt(request: ChatRequest, signal: AbortSignal): Promise<Attempt> {
    const prompt = estimateTokens(JSON.stringify(request.messages));
    const admission = await this.#limits.enter(prompt + this.#budget.usualCompletion, signal);
    const held = this.#hold(prompt, admission);
    const time = new TimeLimit(this.#settings.timeout, () => undefined);
    const timeout = anyOf([time.signal, signal]);
    let settled = true;
    try {
      this.#api ??= chatClient(this.#settings, 0);
      const completion = await (await this.#api).chat.completions.create(request, { signal: timeout.signal });
      this.#budget.sent();
      const parsed = completionSchema.safeParse(completion);
      if (!parsed.success) {
        const failure = { kind: "retry", reason: "bad_response", sent: true, after: undefined } as const;
        return { failure, text: "its answer is no chat completion" };
      }
      const cost = this.#book(parsed.data, prompt, admission);
      return { answer: { ...answerIn(parsed.data), cost } };
    } catch (error) {
      if (error instanceof NoVerdict) throw error;
      const failure = classify(error, timeout.signal.aborted, droppableIn(request), this.#settings);
      if (failure.kind !== "retry" || failure.sent) this.#budget.sent();
      if (failure.kind === "retry" && failure.after !== undefined) {
        // A wait named by the server applies to all questions; set before this request frees its place for the next one.
        this.#limits.pause(Math.min(failure.after, 1000 * this.#settings.patience));
      }
      signal.throwIfAborted();
      settled = surelyFree(failure);
      const timedOut = failure.kind === "retry" && failure.reason === "timeout";
      const { timeout: seconds, key } = this.#settings;
      return { failure, text: timedOut ? `no answer within ${seconds} s` : chatErrorText(error, key) };
    } finally {
      time.clear();
      timeout.release();
      if (settled) this.#budget.release(held);
      admission.leave();
    }
  }

  /** Dollars that a request may cost. Throws when the budget has less left. */
  #hold(promptTokens: number, admission: Admission): number {
    const held = this.#budget.hold(promptTokens);
    if (held !== undefined) return held;
    admission.leave();
    const { others } = this.#settings;
    const spent = ((this.usage().cost ?? 0) + (others?.() ?? 0)).toFixed(4);
    // Requests under way are paid for, so their answers are still used.
    throw this.#stopped(
      `${others ? "all judges together have" : "it has"} cost $${spent}, and the next request could pass the $${this.#settings.maxCost} that --judge-max-cost allows; raise it to go on`,
    );
  }

  #book({ usage, choices }: Completion, promptEstimate: number, admission: Admission): number | null {
    const prompt = usage?.prompt_tokens ?? promptEstimate;
    const completion = usage?.completion_tokens ?? estimateTokens(choices[0]?.message.content ?? "");
    const cost = this.#budget.bill(prompt, completion);
    admission.billed(prompt + completion);
    this.#lastAnswer = this.#clock.now();
    if (this.#down) this.#settings.log(`the judge at ${this.#settings.url} answers again`);
    this.#down = false;
    return cost;
  }
}

/** A request that was cut off or timed out may still be billed, with no usage reported; a refused one is not. */
function surelyFree(failure: Failure): boolean {
  if (failure.kind !== "retry" || !failure.sent) return true;
  return failure.reason === "rate_limited" || failure.reason === "server_error";
}
