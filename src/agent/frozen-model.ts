/**
 * The frozen base model of one rollout (`withBase`): its turns are counted against limits of its own, are no part of the rollout's
 * sequences, and may be sampled as a request likes, since nobody learns from them. It is gone when the rollout ends.
 */
import type { Chat } from "../chat/chat.js";
import { isLocal } from "../core/engine/engine.js";
import type { SampledTurn } from "../core/rollout/sample.js";
import { deriveSeed } from "../core/util/random.js";
import { anyOf } from "../core/util/signals.js";
import type { Uncounted } from "../core/util/time-limit.js";
import type { Frozen } from "../engine/frozen.js";
import { badRequest, unsupported } from "../serve/errors.js";
import { type Answer, type Conversation, ServedModel, type Wanted } from "../serve/model.js";
import type { Asked } from "../serve/requests.js";
import { rolloutEnded, rolloutSeats } from "./rollout-model.js";
import type { CompleteLimits } from "./with-base.js";

export interface FrozenModelSettings {
  readonly frozen: Frozen;
  readonly chat: Chat;
  readonly limits: CompleteLimits;
  /** Of the rollout. */
  readonly seed: number;
  /** Of the rollout: counts its turns' time. */
  readonly written: Uncounted;
  /** Called with the error of each request. */
  readonly onTrouble: (error: unknown) => void;
  readonly onNote: (text: string) => void;
}

/** Of a turn on vLLM by default. */
const SECONDS = 60;

export class FrozenModel extends ServedModel {
  /** vLLM samples nothing under a grammar. */
  override readonly enforces: boolean;
  override readonly checksForm: boolean;
  /** Turns, their tokens, and requests that were answered with an error. */
  readonly tally = { base_calls: 0, base_prompt_tokens: 0, base_completion_tokens: 0, base_refused: 0 };
  readonly #settings: FrozenModelSettings;
  readonly #over = new AbortController();
  #requests = 0;

  constructor(settings: FrozenModelSettings) {
    const { engine } = settings.frozen;
    super(["base"], engine, settings.chat, undefined, rolloutSeats());
    this.#settings = settings;
    this.enforces = isLocal(engine);
    this.checksForm = !this.enforces;
    this.onNote = (text) => settings.onNote(`not enforced of what the agent asks of the base: ${text}`);
  }

  /** No more turns: those under way end. */
  end(): void {
    this.#over.abort(rolloutEnded());
    this.close();
  }

  override onError(error: unknown): void {
    this.tally.base_refused++;
    this.#settings.onTrouble(error);
  }

  /** Requests without one draw by the rollout's: played again, they draw the same. */
  override requestSeed({ seed }: Asked): number {
    return seed ?? deriveSeed(this.#settings.seed, "base", this.#requests++);
  }

  override answer(conversation: Conversation, wanted: Wanted): Promise<Answer> {
    return this.#limited(conversation.append.length, wanted, (limited) => super.answer(conversation, limited));
  }

  override complete(prompt: readonly number[], wanted: Wanted): Promise<SampledTurn> {
    return this.#limited(prompt.length, wanted, (limited) => super.complete(prompt, limited));
  }

  override scores(): never {
    throw unsupported("'echo' with 'logprobs' is refused in a rollout", "echo");
  }

  async #limited<T extends Pick<SampledTurn, "segment" | "stop">>(
    given: number,
    wanted: Wanted,
    sample: (limited: Wanted) => Promise<T>,
  ): Promise<T> {
    const { frozen, limits, written } = this.#settings;
    const { seconds = this.enforces ? Number.POSITIVE_INFINITY : SECONDS } = limits;
    if (this.#over.signal.aborted) throw rolloutEnded();
    if (this.tally.base_calls >= limits.calls) {
      throw badRequest(
        `The rollout has had its ${limits.calls} turns of the base (withBase's calls).`,
        null,
        "base_call_limit",
      );
    }
    this.tally.base_calls++;
    using ended = anyOf([wanted.signal, this.#over.signal]);
    frozen.pace();
    const maxTokens = Math.min(wanted.maxTokens ?? limits.maxTokens, limits.maxTokens);
    const turn = await written.during(() => sample({ ...wanted, maxTokens, seconds, signal: ended.signal }));
    this.tally.base_prompt_tokens += given;
    this.tally.base_completion_tokens += turn.segment.ids.length;
    if (turn.stop === "deadline") {
      throw badRequest(`The base did not end its turn within ${seconds} s (withBase's seconds).`, null, "base_timeout");
    }
    return turn;
  }
}
