/**
 * The engine of a thread's frozen base models. It is there while a rollout on the thread is: before the learner has its turn, all
 * of its memory is given back.
 */
import type { Engine, EngineOptions, PolicyEngine } from "../core/engine/engine.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { type Frozen, openFrozen } from "../engine/frozen.js";
import { type BaseLimits, baseSizes } from "./with-base.js";

/**
 * What runs work with the base model, beside an engine that plays.
 *
 * @param options with which `beside` was loaded
 */
export function frozenBase(limits: BaseLimits, options: EngineOptions, beside: Engine) {
  const { gpu } = beside.info as PolicyEngine["info"];
  const open = () => openFrozen(options, beside, baseSizes(limits, { ...options, gpu }));
  let users = 0;
  let opened: Promise<Frozen> | undefined;
  let closing: Promise<void> = Promise.resolve();
  /** @throws HoneError where there is no memory for it */
  return async <T>(work: (frozen: Frozen) => Promise<T>): Promise<T> => {
    users++;
    opened ??= closing.then(open);
    const own = opened;
    try {
      const frozen = await own.catch((error: unknown) => {
        throw new HoneError(`the base beside the trained model (withBase): ${messageOf(error)}`, { cause: error });
      });
      return await work(frozen);
    } finally {
      if (--users === 0) {
        opened = undefined;
        // One that was not opened has told so.
        closing = own.then(
          (frozen) => frozen.close(),
          () => undefined,
        );
        await closing;
      }
    }
  };
}
