/**
 * The client of the judge's server: questions in, texts out. Repeats a request after a transient failure (busy, broken,
 * slow), waits while the server is down, keeps within the budget, and counts every request sent. It does
 * not interpret the texts.
 */
import type { JudgeUsage } from "../core/run/verdicts.js";
import { HoneError } from "../core/util/errors.js";
import { Random } from "../core/util/random.js";
import { anyOf } from "../core/util/signals.js";
import { TimeLimit } from "../core/util/time-limit.js";
import { type Completion, complete } from "../serve/openai/completion.js";
import { Dialect, type DialectSettings } from "../serve/openai/dialect.js";
import { adviceFor, type Cause, ChatError, causeOf, mayPass, type Passing } from "../serve/openai/failure.js";
import { type ChatServer, shownUrl } from "../serve/openai/server.js";
import { estimateTokens } from "../serve/openai/tokens.js";
import { JudgeBudget, type JudgeBudgetSettings, noUsage } from "./budget.js";
import type { AnswerForm } from "./form.js";
import { type Clock, type LimitSettings, Limits, realClock } from "./limits.js";
import { NoVerdict, type NoVerdictReason } from "./no-verdict.js";

export interface JudgeMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface JudgeQuestion {
  readonly messages: readonly JudgeMessage[];
  /** Form of the answer, for servers that support a schema. */
  readonly form: AnswerForm;
}

export interface JudgeAnswer {
  readonly text: string;
  /** The server truncated it at a token limit, or its stream did not say its end. */
  readonly cut: boolean;
  /** Dollars; null where the price is not known. */
  readonly cost: number | null;
}

export interface ClientSettings
  extends ChatServer,
    DialectSettings,
    LimitSettings,
    Pick<JudgeBudgetSettings, "price" | "cap"> {
  /** Seconds that one request may take. */
  readonly timeout: number;
  /** Seconds to wait for a server that answers no request. */
  readonly patience: number;
  /** Reports a server that is down, and what it does not take. */
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

const REASONS: Record<Passing, NoVerdictReason> = {
  busy: "rate_limited",
  broken: "server_error",
  garbled: "bad_response",
  connection: "connection",
  timeout: "timeout",
};

/** Tells a server that refuses every question from one that refuses a certain one. */
const PROBE = { messages: [{ role: "user", content: "Answer with the one word yes." }] };

/** Of one question: how often it failed, how often by a rate limit, and when it was asked and failed first, in milliseconds. */
interface Failures {
  readonly all: number;
  readonly busy: number;
  readonly started: number;
  readonly first: number;
}

interface Answered {
  readonly completion: Completion;
  readonly cost: number | null;
}

export class JudgeClient {
  readonly #settings: ClientSettings;
  readonly #dialect: Dialect;
  readonly #limits: Limits;
  readonly #budget: JudgeBudget;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  /** Refusals of single questions, and when the server had answered last. */
  readonly #questions = new Map<string, number>();
  #probing: Promise<void> | undefined;
  #lastAnswer = Number.NEGATIVE_INFINITY;
  #down = false;
  #estimates = false;

  /** @param before cost of the run so far */
  constructor(settings: ClientSettings, before: JudgeUsage = noUsage(), clock: Clock = realClock) {
    this.#settings = settings;
    this.#dialect = new Dialect(settings, (text) => settings.log(`the judge ${text}`));
    this.#limits = new Limits(settings, clock);
    this.#budget = new JudgeBudget(settings, before);
    this.#clock = clock;
  }

  /** Requests and tokens sent and billed so far. */
  usage(): JudgeUsage {
    return this.#budget.usage();
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
    using end = anyOf([this.#stop.signal, signal]);
    const asked = () => this.#askUntil(question, end.signal);
    return await (this.#settings.own?.during(asked) ?? asked());
  }

  async #askUntil({ messages, form }: JudgeQuestion, signal: AbortSignal): Promise<JudgeAnswer> {
    const started = this.#clock.now();
    const random = new Random("judge-wait", messages.at(-1)?.content ?? "");
    const { own } = this.#settings;
    const schema = (own && form.within?.(own.answerTokens)) ?? form.schema;
    const question = { messages: messages.map((one) => ({ ...one })), form: { name: form.name, schema } };
    const send = (body: object) => this.#send(body, signal);
    const failures = { all: 0, busy: 0, started, first: started };
    for (;;) {
      try {
        return answerIn(await this.#dialect.ask(question, send, failures.all - failures.busy));
      } catch (error) {
        if (!(error instanceof ChatError)) throw error;
        const failure = causeOf(error) === "refused" ? await this.#whose(error, send) : error;
        const cause = this.#causeNow(failure);
        if (!mayPass(cause)) throw this.#endOf(failure, cause);
        if (failures.all++ === 0) failures.first = this.#clock.now();
        if (cause === "busy") failures.busy++;
        else if (failures.all - failures.busy >= ATTEMPTS && this.#lastAnswer <= failures.first)
          await this.#probe(signal);
        this.#checkPatience(failure, cause, failures);
        const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures.all - 1));
        // Where the server named a time, all questions wait for it already; a second time it was too short.
        const named = failure.after !== undefined && failures.all === 1;
        if (!named) await this.#clock.sleep(1000 * longest * (0.5 + 0.5 * random.float()), signal);
      }
    }
  }

  /** At an address that has answered, a wrong one or an error that says little may pass: a proxy loads its routes anew. */
  #causeNow(failure: ChatError): Cause {
    const cause = causeOf(failure);
    const answered = this.#lastAnswer > Number.NEGATIVE_INFINITY;
    return answered && (cause === "address" || cause === "refused") ? "broken" : cause;
  }

  /**
   * Asks for next to nothing, since a refusal does not say whether it is the question's, the key's, the account's or the model's.
   * @returns what made the server refuse that too
   * @throws NoVerdict where only the question is refused
   */
  async #whose(refusal: ChatError, send: (body: object) => Promise<Answered>): Promise<ChatError> {
    try {
      // Others were answered since such a refusal was the question's.
      const known = (this.#questions.get(refusal.likeness) ?? Number.POSITIVE_INFINITY) < this.#lastAnswer;
      if (!known) await this.#dialect.ask(PROBE, send);
    } catch (error) {
      if (!(error instanceof ChatError)) throw error;
      return mayPass(causeOf(error)) ? error : refusal;
    }
    this.#questions.set(refusal.likeness, this.#lastAnswer);
    throw new NoVerdict("bad_request", refusal.message);
  }

  /** Whether the server answers anything, for all questions that fail: an answer is the last one then. */
  async #probe(signal: AbortSignal): Promise<void> {
    this.#probing ??= this.#dialect
      .ask(PROBE, (body) => this.#send(body, this.#stop.signal))
      .then(
        () => undefined,
        (error: unknown) => {
          if (!(error instanceof ChatError)) throw error;
        },
      )
      .finally(() => {
        this.#probing = undefined;
      });
    await this.#probing;
    signal.throwIfAborted();
  }

  /** What a failure ends that does not pass: the question, or all of them. */
  #endOf(failure: ChatError, cause: Cause): NoVerdict | JudgeStopped {
    if (cause === "too_long") return new NoVerdict("too_long", failure.message);
    if (cause === "filtered")
      return new NoVerdict("refused", `the judge's server filtered the question: ${failure.message}`);
    const advice = adviceFor("judge", this.#settings, failure);
    return this.#giveUp(advice === undefined ? failure.message : `${failure.message}; ${advice}`);
  }

  /** Throws when another attempt is not worthwhile. */
  #checkPatience({ message }: ChatError, cause: Passing, { all, busy, started, first }: Failures): void {
    const { patience, url, log } = this.#settings;
    const now = this.#clock.now();
    const answersOthers = this.#lastAnswer > first;
    const silent = (now - Math.max(started, this.#lastAnswer)) / 1000;
    if (answersOthers) {
      // A rate limit is no failure of the question, unless it is too large for one: its turn may come late.
      const enough = cause === "busy" ? busy >= ATTEMPTS && (now - first) / 1000 > patience : all - busy >= ATTEMPTS;
      if (enough) throw new NoVerdict(REASONS[cause], message);
    } else if (silent > patience) {
      throw this.#giveUp(`it has not answered for ${silent.toFixed(0)} s (--judge-patience): ${message}`);
    } else if (cause === "garbled" && all - busy >= ATTEMPTS) {
      // Somebody answers there, so that waiting helps little.
      throw this.#giveUp(message);
    } else if (all >= 2 && cause !== "busy" && !this.#down) {
      this.#down = true;
      log(`the judge at ${shownUrl(url)} does not answer (${message}); waiting up to ${patience} s`);
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
    return new JudgeStopped(`the judge ${model} at ${shownUrl(url)} cannot be asked: ${why}`);
  }

  /** Sends one request and books its cost. @throws ChatError */
  async #send(body: object, signal: AbortSignal): Promise<Answered> {
    const { messages } = body as { messages: unknown };
    const prompt = estimateTokens(JSON.stringify(messages));
    const leave = await this.#limits.enter(signal);
    const held = await this.#hold(prompt, signal).catch((error: unknown) => {
      leave();
      throw error;
    });
    using time = new TimeLimit(this.#settings.timeout, () => undefined);
    using timeout = anyOf([time.signal, signal]);
    let settled = true;
    try {
      const completion = await complete(this.#settings, body, timeout.signal);
      this.#budget.sent();
      return { completion, cost: this.#book(completion, prompt) };
    } catch (error) {
      const text = `no answer within ${this.#settings.timeout} s`;
      const failure = timeout.signal.aborted ? new ChatError({ kind: "timeout", status: 0, text }) : error;
      if (!(failure instanceof ChatError)) throw error;
      if (failure.sent) this.#budget.sent();
      // A wait named by the server applies to all questions; set before this request frees its place for the next one.
      if (failure.after !== undefined) this.#limits.pause(Math.min(failure.after, 1000 * this.#settings.patience));
      signal.throwIfAborted();
      settled = surelyFree(failure);
      throw failure;
    } finally {
      if (settled) this.#budget.release(held);
      this.#settings.cap.ended();
      leave();
    }
  }

  /** Dollars that a request may cost. Throws when the cap has less left, also once those under way have ended. */
  async #hold(promptTokens: number, signal: AbortSignal): Promise<number> {
    const held = await this.#settings.cap.admit(() => this.#budget.hold(promptTokens), signal);
    if (held !== undefined) return held;
    const { spent, reserved, judges, dollars } = this.#settings.cap;
    const more = reserved < 0.00005 ? "" : ` and up to $${reserved.toFixed(4)} for requests without an answer`;
    throw this.#stopped(
      `${judges > 1 ? "all judges together have" : "it has"} cost $${spent.toFixed(4)}${more}, and the next request could pass the $${dollars} that --judge-max-cost allows; raise it to go on`,
    );
  }

  #book({ usage, text, thoughts, calls }: Completion, promptEstimate: number): number | null {
    const { log, url } = this.#settings;
    const prompt = usage.prompt ?? promptEstimate;
    const written = [text, thoughts?.text, ...calls.map((call) => call.arguments)].join("");
    const completion = usage.completion ?? estimateTokens(written);
    if (!this.#estimates && (usage.prompt === undefined || usage.completion === undefined)) {
      this.#estimates = true;
      log(
        `the judge at ${shownUrl(url)} does not say how many tokens it used; they and their cost are estimated from the texts`,
      );
    }
    const cost = this.#budget.bill(prompt, completion);
    this.#lastAnswer = this.#clock.now();
    if (this.#down) log(`the judge at ${shownUrl(url)} answers again`);
    this.#down = false;
    return cost;
  }
}

/** @throws NoVerdict when the judge refuses */
function answerIn({ completion: { text, refusal, finish }, cost }: Answered): JudgeAnswer {
  if (refusal !== undefined || finish === "filtered") {
    throw new NoVerdict("refused", `the judge refuses: ${refusal ?? "its server filtered the answer"}`);
  }
  return { text, cut: finish !== "stop", cost };
}

/** A request that was cut off or timed out may still be billed, with no usage reported; a refused one is not. */
function surelyFree({ kind, sent }: ChatError): boolean {
  return kind === "refused" || kind === "page" || !sent;
}
