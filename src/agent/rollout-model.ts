/**
 * The model of one rollout that a task's own code plays: every turn is sampled as the run samples, recorded, and counted
 * against the rollout's limits. It is gone when the rollout ends.
 */

import { type Chat, requireFormat } from "../chat/chat.js";
import type { Engine } from "../core/engine/engine.js";
import type { SamplingSettings } from "../core/rollout/engine-session.js";
import type { RolloutLimits } from "../core/rollout/rollout.js";
import type { ChatMessage, RolloutEnd, ToolSchema } from "../core/task/task.js";
import { deriveSeed } from "../core/util/random.js";
import { anyOf } from "../core/util/signals.js";
import type { Uncounted } from "../core/util/time-limit.js";
import { ApiError, badRequest } from "../serve/errors.js";
import { type Answer, type Conversation, ServedModel, type Wanted } from "../serve/model.js";
import type { Point } from "../serve/recorder.js";
import type { Asked } from "../serve/requests.js";
import { Seats } from "../serve/seats.js";

/** Completions of one rollout that are sampled at once, and that wait beside them. */
const AT_ONCE = 16;
const WAITING = 48;
/**
 * The engine has a slot for each rollout. The other sequences of one leave their KV where it is: they find it again as any
 * that begins alike, unless somebody needed the room.
 */
const IDLE = 1;
export const rolloutSeats = () => new Seats<Point>(AT_ONCE, WAITING, IDLE);
/** More than a rollout's turns can have: nothing of it is forgotten. */
const BOUNDS = { tokens: Number.POSITIVE_INFINITY, points: Number.POSITIVE_INFINITY };

export interface RolloutModelSettings {
  readonly engine: Engine;
  readonly chat: Chat;
  readonly sampling: SamplingSettings;
  readonly seed: number;
  readonly limits: Pick<RolloutLimits, "maxTurns" | "maxTokens" | "turnSeconds" | "offForm">;
  /** Of the rollout: counts its turns' time. */
  readonly written: Uncounted;
  /** Told once a rollout of each thing that is not done as the code asked. */
  readonly onNote: (text: string) => void;
  /** Told when the model, or the code, has its turn. */
  readonly onWaiting: (turn: number, who: "the player" | "the agent") => void;
}

/** One turn of the model, as it is kept. */
export interface PlayedTurn {
  /** Of its beginning. */
  readonly number: number;
  readonly point: Point;
  readonly asked: Conversation;
  readonly answer: Answer;
  /** Whether a limit of hone ended it, not a lower one that the code has asked for. */
  readonly cut: boolean;
  /** The tool whose call the request demanded by name. */
  readonly demanded: string | undefined;
  /** The answer's first deviation from the form that was asked for. */
  readonly formProblem: string | undefined;
  /** Of its calls. */
  readonly callProblem: string | undefined;
}

export const rolloutEnded = () =>
  new ApiError(410, "invalid_request_error", "The rollout of this key has ended.", "rollout_ended");

const outOfTime = (seconds: number) =>
  badRequest(`The model did not end its turn within ${seconds} s (--turn-timeout).`, null, "turn_timeout");

type LimitEnd = Extract<RolloutEnd, "turn_limit" | "context_limit" | "deadline">;

/** Errors by which a rollout meets a limit. */
const LIMITS: Readonly<Record<string, LimitEnd>> = {
  turn_limit: "turn_limit",
  context_length_exceeded: "context_limit",
  turn_timeout: "deadline",
};

/** Options by which the sampled distribution would be another than the learner's, and their values without effect. */
const reshaping = { top_p: 1, top_k: 0, min_p: 0, frequency_penalty: 0, presence_penalty: 0 } as const;

export class RolloutModel extends ServedModel {
  /** In the order in which they ended. */
  readonly turns: PlayedTurn[] = [];
  /** Only where the learner is told of the restricted distribution. */
  override readonly enforces: boolean;
  override readonly checksForm = true;
  override readonly fixedTemperature: number;
  /** Requests that were answered with an error. */
  refused = 0;
  /** The first limit that the rollout has met, and the number of turns that had begun. */
  limit: { readonly end: LimitEnd; readonly turn: number } | undefined;
  /** The error of a request since the last turn, other than a limit's. */
  trouble: unknown;
  readonly #settings: RolloutModelSettings;
  readonly #over = new AbortController();
  readonly #seeds = new Map<Point, number>();
  /** Points that have been gone on from. */
  readonly #continued = new Set<Point>();
  /** Seeds of sequences whose first turn was not answered. */
  readonly #unused: number[] = [];
  readonly #clock = { running: 0, since: 0, busy: 0, queued: 0 };
  #sequences = 0;
  #begun = 0;

  constructor(settings: RolloutModelSettings) {
    super(["hone"], settings.engine, settings.chat, BOUNDS, rolloutSeats());
    this.#settings = settings;
    this.enforces = settings.limits.offForm === "prevent";
    this.fixedTemperature = settings.sampling.temperature ?? 1;
  }

  /** Seconds in which a turn was under way, and of them those before the engine began with it. */
  get seconds(): { readonly player: number; readonly queue: number } {
    const { running, since, busy, queued } = this.#clock;
    const player = busy + (running > 0 ? (performance.now() - since) / 1000 : 0);
    return { player, queue: Math.min(queued, player) };
  }

  /** No more turns: those under way end. */
  end(): void {
    this.#over.abort(rolloutEnded());
    this.close();
  }

  override onError(error: unknown): void {
    this.refused++;
    const end = error instanceof ApiError ? LIMITS[error.code ?? ""] : undefined;
    if (end) this.limit ??= { end, turn: this.#begun };
    else this.trouble = error;
  }

  #refuse(option: string, why: string): never {
    this.#settings.onNote(`the agent asks for ${option}, which is refused: ${why}`);
    throw badRequest(`'${option}' is refused in a rollout: ${why}`, option, "unsupported_value");
  }

  override checkOptions(asked: Asked & { readonly logprobs?: unknown }): void {
    if (this.#over.signal.aborted) throw rolloutEnded();
    for (const [option, without] of Object.entries(reshaping)) {
      const value = asked[option as keyof typeof reshaping];
      const off = value == null || value === without || (option === "top_k" && value === -1);
      if (!off) this.#refuse(option, "the learner must know the distribution that tokens are sampled from");
    }
    if (asked.seed != null) this.#refuse("seed", "rollouts of a scenario would all be the same");
    const { fixedTemperature: fixed } = this;
    if (asked.temperature == null || asked.temperature === fixed) return;
    this.#settings.onNote(
      `the agent asks for the temperature ${asked.temperature}; its turns are sampled at ${fixed} (--temperature)`,
    );
  }

  override noteUnenforced(what: readonly string[]): void {
    for (const one of what) {
      this.#settings.onNote(
        this.enforces
          ? `not enforced of what the agent asks for: ${one}`
          : `the agent asks for ${one}, which is not enforced: turns are free (--off-form)`,
      );
    }
  }

  override requestSeed(): number {
    return this.#settings.seed;
  }

  override async converse(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    chat: Chat = this.chat,
    signal?: AbortSignal,
  ): Promise<Conversation> {
    requireFormat(chat, tools, this.engine.info.model);
    return super.converse(messages, tools, chat, signal);
  }

  override complete(): never {
    throw badRequest(
      "In a rollout there are /v1/chat/completions, /v1/responses and /v1/messages: their turns are trained.",
    );
  }

  override async answer(conversation: Conversation, wanted: Wanted): Promise<Answer> {
    const { sampling, limits, written } = this.#settings;
    if (this.#over.signal.aborted) throw rolloutEnded();
    if (this.#begun >= limits.maxTurns) {
      throw badRequest(`The rollout has had its ${limits.maxTurns} turns (--max-turns).`, null, "turn_limit");
    }
    const number = this.#begun++;
    const { seed, giveBack } = this.#seedFor(conversation.point);
    using ended = anyOf([wanted.signal, this.#over.signal]);
    this.#begin();
    try {
      const limited: Wanted = {
        ...wanted,
        sampling: { ...sampling, seed },
        restricts: true,
        maxTokens: Math.min(wanted.maxTokens ?? limits.maxTokens, limits.maxTokens),
        seconds: limits.turnSeconds,
        signal: ended.signal,
        onWaited: (seconds) => {
          this.#clock.queued += seconds;
        },
      };
      const answer = await written.during(() => super.answer(conversation, limited));
      this.#seeds.set(answer.point, seed);
      const formProblem = wanted.format?.(answer.read.said);
      const { length } = answer.segment.ids;
      const cut = answer.stop !== "stop" && (length < (wanted.maxTokens ?? Infinity) || length >= limits.maxTokens);
      const callProblem = wanted.callForm?.(answer.read.calls);
      const { demanded } = wanted;
      const about = { cut, demanded, formProblem, callProblem };
      this.turns.push({ number, point: answer.point, asked: conversation, answer, ...about });
      this.trouble = undefined;
      if (answer.stop === "deadline") throw outOfTime(limits.turnSeconds);
      return answer;
    } catch (error) {
      if (!this.turns.some((turn) => turn.number === number)) giveBack();
      throw error;
    } finally {
      this.#rest();
    }
  }

  /**
   * A sequence draws by one seed, the first by the rollout's own, as the built-in loop does. A conversation that begins anew, or goes
   * on from a turn in a second way, draws by another: the same again would teach nothing. A turn that was not answered gives its seed
   * back: where the code asks again, it draws the same.
   */
  #seedFor(point: Point | null): { readonly seed: number; readonly giveBack: () => void } {
    if (point && !this.#continued.has(point)) {
      this.#continued.add(point);
      return { seed: this.#seeds.get(point) as number, giveBack: () => this.#continued.delete(point) };
    }
    const seed = this.#unused.shift() ?? this.#newSeed();
    return { seed, giveBack: () => this.#unused.push(seed) };
  }

  #newSeed(): number {
    const number = this.#sequences++;
    return number === 0 ? this.#settings.seed : deriveSeed(this.#settings.seed, "sequence", number);
  }

  #begin(): void {
    if (this.#clock.running++ === 0) this.#clock.since = performance.now();
    this.#settings.onWaiting(this.#begun, "the player");
  }

  #rest(): void {
    if (--this.#clock.running > 0) return;
    this.#clock.busy += (performance.now() - this.#clock.since) / 1000;
    this.#settings.onWaiting(this.#begun, "the agent");
  }
}
