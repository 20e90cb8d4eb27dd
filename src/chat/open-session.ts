/** A conversation with the engine's model outside of a gathering. */
import type { Engine } from "../core/engine/engine.js";
import type { Sampling } from "../core/engine/sequence.js";
import { EngineSession } from "../core/rollout/engine-session.js";
import type { Opening, Session } from "../core/rollout/session.js";
import { HoneError } from "../core/util/errors.js";
import { type Chat, requireFormat } from "./chat.js";

/**
 * Opens a sequence of its own, which the session closes.
 *
 * @throws HoneError when the prompt does not fit, or the model has no known tool format
 */
export function openSession(engine: Engine, chat: Chat, opening: Opening, sampling: Sampling): Session {
  requireFormat(chat, opening.tools, engine.info.model);
  const prompt = Int32Array.from(chat.template.prompt(opening.messages, opening.tools));
  const room = engine.info.contextPerSequence;
  if (prompt.length >= room) {
    throw new HoneError(
      `the prompt has ${prompt.length} tokens, and a conversation has room for ${room}; raise --context`,
    );
  }
  return new EngineSession(engine, chat, engine.open(prompt), opening, prompt, sampling);
}
