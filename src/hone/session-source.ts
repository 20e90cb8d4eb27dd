/** The players: opens the engine, an API or the task's expert on this thread, and starts sessions for whole groups. */

import { chatOf, requireFormat } from "../chat/chat.js";
import { openGroup } from "../chat/open-session.js";
import type { GroupJob } from "../core/gather/job.js";
import type { PlayerSpec } from "../core/rollout/player.js";
import type { Opening, Session } from "../core/rollout/session.js";
import type { Player } from "../core/rollout/trajectory.js";
import type { AnyTask } from "../core/task/task.js";
import { Random } from "../core/util/random.js";
import { loadEngine } from "../engine/factory.js";

export interface SessionSource {
  readonly info: Player;
  /** One session for each member of the group, in order. */
  start(opening: Opening, job: GroupJob): Session[];
}

/** @param note tells the user, once, what a server does not take */
export async function openSessions(
  spec: PlayerSpec,
  task: AnyTask,
  note: (text: string) => void,
): Promise<SessionSource> {
  if (spec.kind === "engine") {
    const engine = await loadEngine(spec.engine);
    const chat = chatOf(engine, spec.chat);
    // One message for the whole gathering; otherwise each rollout would fail.
    requireFormat(chat, task.tools, engine.info.model);
    const { temperature = 1 } = spec.sampling;
    return {
      info: { kind: "engine", model: spec.engine.model, adapter: spec.adapter, temperature },
      start: (opening, job) => {
        const samplings = job.members.map(({ seed }) => ({ ...spec.sampling, seed }));
        return openGroup(engine, chat, opening, samplings, `the prompt of scenario ${job.scenario.id}`);
      },
    };
  }
  if (spec.kind === "api") {
    const { settings } = spec;
    const [{ Dialect }, { ApiSession }] = await Promise.all([
      import("../serve/openai/dialect.js"),
      import("../agent/api-session.js"),
    ]);
    const dialect = new Dialect(settings, (text) => note(`the model ${settings.model} at ${settings.url} ${text}`));
    return {
      info: { kind: "api", model: settings.model, adapter: null, temperature: settings.temperature ?? 1 },
      start: (opening, job) => job.members.map((member) => new ApiSession(dialect, settings, opening, member.seed)),
    };
  }
  const { ExpertSession } = await import("./expert-session.js");
  return {
    info: { kind: "expert", model: task.name, adapter: null, temperature: 0 },
    start: (_, job) =>
      job.members.map((member) => {
        const random = new Random(member.seed);
        return new ExpertSession(task, job.scenario, random, { mistakes: spec.mistakes });
      }),
  };
}
