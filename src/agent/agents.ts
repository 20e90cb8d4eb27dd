/**
 * Tasks that people's own agents play (`rollout` of defineTask): one endpoint for each worker thread, one model for each
 * rollout. The rollout workers load this room where a task needs it.
 */

import { chatOf } from "../chat/chat.js";
import type { EnginePlayer } from "../core/rollout/player.js";
import type { RolloutLimits } from "../core/rollout/rollout.js";
import type { AnyTask } from "../core/task/task.js";
import { messageOf } from "../core/util/errors.js";
import { Uncounted } from "../core/util/time-limit.js";
import { loadEngine, outagesOf } from "../engine/factory.js";
import type { Frozen } from "../engine/frozen.js";
import { frozenBase } from "./frozen-base.js";
import { FrozenModel } from "./frozen-model.js";
import { openHost } from "./host.js";
import { catchEverything } from "./output.js";
import { type AgentMember, playAgent } from "./play.js";
import type { Programs } from "./programs.js";
import { RolloutModel } from "./rollout-model.js";
import { baseLimitsOf } from "./with-base.js";

export interface AgentsSettings {
  readonly task: AnyTask;
  readonly env: unknown;
  readonly player: EnginePlayer;
  readonly limits: RolloutLimits;
  /** Called with each option that is refused or replaced, and with errors that no rollout is known for. */
  readonly onNote: (text: string) => void;
}

export type Agents = Awaited<ReturnType<typeof openAgents>>;

/** Opens the endpoint of this thread. */
export async function openAgents({ task, env, player, limits, onNote }: AgentsSettings) {
  const engine = await loadEngine(player.engine);
  const chat = chatOf(engine, player.chat);
  const host = await openHost();
  const programs = new Set<Programs>();
  catchEverything((error) => onNote(`an agent left an error that nothing caught: ${messageOf(error)}`));
  const outages = await outagesOf(player.engine);
  const endless = limits.turnSeconds === Number.POSITIVE_INFINITY;
  const baseLimits = baseLimitsOf(task.rollout);
  const withFrozen = baseLimits && frozenBase(baseLimits, player.engine, engine);
  const playBeside = (member: AgentMember, frozen?: Frozen) => {
    const { seed, onWaiting } = member;
    const written = new Uncounted();
    const model = new RolloutModel({
      engine,
      chat,
      sampling: player.sampling,
      seed,
      limits,
      written,
      onNote,
      onWaiting,
    });
    const onTrouble = (error: unknown) => {
      model.trouble = error;
    };
    const base =
      frozen && baseLimits && new FrozenModel({ frozen, chat, limits: baseLimits, seed, written, onTrouble, onNote });
    return playAgent({
      ...member,
      task,
      env,
      model,
      base,
      host,
      limits,
      pauses: endless ? written : outages,
      programs,
    });
  };
  return {
    /** @throws HoneError where the agent fails */
    play: (member: AgentMember) =>
      withFrozen ? withFrozen((frozen) => playBeside(member, frozen)) : playBeside(member),
    /** Ends the programs of all rollouts, and the endpoint. */
    close: async () => {
      await Promise.all([...programs].map((all) => all.end()));
      await host.close();
    },
  };
}
