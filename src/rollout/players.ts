/** Who plays: opens the engine, an API or the task's expert on this thread, and starts sessions for whole groups. */
import type { AnyTask, ExpertOptions } from "../task/task.js";
import { Random } from "../util/random.js";
import { AgentSession, type AgentSettings, agentClient } from "./agent-session.js";
import { ExpertSession } from "./expert-session.js";
import type { Opening, Session } from "./session.js";
import type { Player } from "./trajectory.js";
import type { GroupJob } from "./worker.js";

/** Plain data, so that it can be sent to workers. */
export type PlayerSpec =
  | { readonly kind: "agent"; readonly settings: AgentSettings }
  | { readonly kind: "expert"; readonly mistakes: NonNullable<ExpertOptions["mistakes"]> };

export interface Players {
  readonly info: Player;
  /** One session for each member of the group, in order. */
  start(opening: Opening, job: GroupJob): Session[];
}

export async function openPlayer(spec: PlayerSpec, task: AnyTask): Promise<Players> {
  if (spec.kind === "agent") {
    const { settings } = spec;
    const client = agentClient(settings);
    return {
      info: { kind: "agent", model: settings.model, adapter: null, temperature: settings.temperature ?? 1 },
      start: (opening, job) => job.members.map((member) => new AgentSession(client, settings, opening, member.seed)),
    };
  }
  return {
    info: { kind: "expert", model: task.name, adapter: null, temperature: 0 },
    start: (_, job) =>
      job.members.map((member) => {
        const random = new Random(member.seed);
        return new ExpertSession(task, job.scenario, random, { mistakes: spec.mistakes });
      }),
  };
}
