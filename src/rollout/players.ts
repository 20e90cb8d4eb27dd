/** Who plays: opens the engine, an API or the task's expert on this thread, and starts sessions for whole groups. */
import { type EngineOptions, loadEngine, type Sequence } from "../engine/index.js";
import type { AnyTask, ExpertOptions } from "../task/task.js";
import { HoneError } from "../util/errors.js";
import { Random } from "../util/random.js";
import { AgentSession, type AgentSettings, agentClient } from "./agent-session.js";
import { EngineSession, type SamplingSettings, templateOf } from "./engine-session.js";
import { ExpertSession } from "./expert-session.js";
import type { Opening, Session } from "./session.js";
import type { Player } from "./trajectory.js";
import type { GroupJob } from "./worker.js";

/** Plain data, so that it can be sent to workers. */
export type PlayerSpec =
  | {
      readonly kind: "engine";
      readonly engine: EngineOptions;
      readonly sampling: SamplingSettings;
      /** SHA-256 of the adapter in use, null for the base model. The adapter itself is set by the engine's owner. */
      readonly adapter: string | null;
    }
  | { readonly kind: "agent"; readonly settings: AgentSettings }
  | { readonly kind: "expert"; readonly mistakes: NonNullable<ExpertOptions["mistakes"]> };

export interface Players {
  readonly info: Player;
  /** One session for each member of the group, in order. */
  start(opening: Opening, job: GroupJob): Session[];
}

async function openEngine(spec: Extract<PlayerSpec, { kind: "engine" }>): Promise<Players> {
  const engine = await loadEngine(spec.engine);
  const template = templateOf(engine);
  const { temperature = 1 } = spec.sampling;
  return {
    info: { kind: "engine", model: spec.engine.model, adapter: spec.adapter, temperature },
    start: (opening, job) => {
      const prompt = Int32Array.from(template.prompt(opening.messages, opening.tools));
      const room = engine.info.contextPerSequence;
      if (prompt.length >= room) {
        throw new HoneError(
          `the prompt of scenario ${job.scenario.id} has ${prompt.length} tokens, but a conversation has room for ${room}; raise --context`,
        );
      }
      const sequences = engine.openGroup(prompt, job.members.length);
      return job.members.map(({ seed }, index) => {
        const sequence = sequences[index] as Sequence;
        return new EngineSession(engine, template, sequence, opening, prompt, { ...spec.sampling, seed });
      });
    },
  };
}

export async function openPlayer(spec: PlayerSpec, task: AnyTask): Promise<Players> {
  if (spec.kind === "engine") return openEngine(spec);
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
