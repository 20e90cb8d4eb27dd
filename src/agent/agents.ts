/**
 * Tasks that people's own agents play (`rollout` of defineTask): one endpoint for each worker thread, one model for each
 * rollout. The rollout workers load this room where a task needs it.
 */

import { chatOf } from "../chat/chat.js";
import { messageOf } from "../core/util/errors.js";
import { loadEngine, outagesOf } from "../engine/factory.js";
import { frozenBase } from "./frozen-base.js";
import { openHost } from "./host.js";
import { catchEverything } from "./output.js";
import { type AgentMember, AgentRollout, type AgentThread } from "./play.js";
import { baseLimitsOf } from "./with-base.js";

export type Agents = Awaited<ReturnType<typeof openAgents>>;

/** Opens the endpoint of this thread. */
export async function openAgents(settings: Pick<AgentThread, "task" | "env" | "player" | "limits" | "onNote">) {
  const { task, player, onNote } = settings;
  const engine = await loadEngine(player.engine);
  const chat = chatOf(engine, player.chat);
  const host = await openHost();
  catchEverything((error) => onNote(`an agent left an error that nothing caught: ${messageOf(error)}`));
  const outages = await outagesOf(player.engine);
  const thread: AgentThread = { ...settings, engine, chat, host, outages, programs: new Set() };
  const limits = baseLimitsOf(task.rollout);
  const withFrozen = limits && frozenBase(limits, player.engine, engine);
  return {
    /** @throws HoneError where the agent fails */
    play: (member: AgentMember) =>
      withFrozen
        ? withFrozen((frozen) => new AgentRollout(thread, member, { frozen, limits }).play())
        : new AgentRollout(thread, member).play(),
    /** Ends the programs of all rollouts, and the endpoint. */
    close: async () => {
      await Promise.all([...thread.programs].map((all) => all.end()));
      await host.close();
    },
  };
}
