/**
 * The engine of a thread's frozen base models. It is there while a rollout on the thread is: before the learner has its turn, all
 * of its memory is given back.
 */
import type { Engine, EngineOptions, PolicyEngine } from "../core/engine/engine.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { type Frozen, openFrozen } from "../engine/frozen.js";
import { type BaseLimits, baseSizes } from "./with-base.js";

export class FrozenBase {
  readonly #open: () => Promise<Frozen>;
  #users = 0;
  #opened: Promise<Frozen> | undefined;
  #closing: Promise<void> = Promise.resolve();

  /** @param beside the engine that plays, loaded with `options` */
  constructor(limits: BaseLimits, options: EngineOptions, beside: Engine) {
    const { gpu } = beside.info as PolicyEngine["info"];
    const sizes = baseSizes(limits, { ...options, gpu });
    this.#open = () => openFrozen(options, beside, sizes);
  }

  /** @throws HoneError where there is no memory for it */
  async during<T>(work: (frozen: Frozen) => Promise<T>): Promise<T> {
    this.#users++;
    this.#opened ??= this.#closing.then(this.#open);
    try {
      const frozen = await this.#opened.catch((error: unknown) => {
        throw new HoneError(`the base beside the trained model (withBase): ${messageOf(error)}`, { cause: error });
      });
      return await work(frozen);
    } finally {
      if (--this.#users === 0) await this.#close();
    }
  }

  #close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    // One that was not opened has told so.
    this.#closing = opened?.then(
      (frozen) => frozen.close(),
      () => undefined,
    ) as Promise<void>;
    return this.#closing;
  }
}
