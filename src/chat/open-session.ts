/** Conversations with the engine's model. */
import type { Engine } from "../core/engine/engine.js";
import type { Sampling } from "../core/engine/sequence.js";
import { EngineSession } from "../core/rollout/engine-session.js";
import type { Opening, Session } from "../core/rollout/session.js";
import { HoneError } from "../core/util/errors.js";
import { type Chat, requireFormat } from "./chat.js";

/**
 * Opens conversations that begin alike, each by a sequence of its own, which it closes.
 *
 * @param samplings one for each
 * @param what of the prompt, for the message where it is too long
 * @throws HoneError when the prompt does not fit, or the model has no known tool format
 */
export function openGroup(
  engine: Engine,
  chat: Chat,
  opening: Opening,
  samplings: readonly Sampling[],
  what = "the prompt",
): Session[] {
  requireFormat(chat, opening.tools, engine.info.model);
  const prompt = Int32Array.from(chat.template.prompt(opening.messages, opening.tools));
  const room = engine.info.contextPerSequence;
  if (prompt.length >= room) {
    throw new HoneError(
      `${what} has ${prompt.length} tokens, but a conversation has room for ${room}; raise --context`,
    );
  }
  const sequences = engine.openGroup(prompt, samplings.length);
  return sequences.map(
    (sequence, index) => new EngineSession(engine, chat, sequence, opening, prompt, samplings[index] as Sampling),
  );
}

/** Opens one, as {@link openGroup}. */
export const openSession = (engine: Engine, chat: Chat, opening: Opening, sampling: Sampling): Session =>
  openGroup(engine, chat, opening, [sampling])[0] as Session;
