/**
 * The players of rollout benches, opened in the workers: hone's own session on the engine's sequences or on
 * llama-server's, sampling freely or following a script. Everything except the sequence is the same on both sides.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type EngineOptions, loadEngine, type Sequence } from "../src/engine/index.js";
import {
  type EnginePlayer,
  ExpertSession,
  engineSessions,
  type PlayerSpec,
  type Session,
  type SessionSource,
} from "../src/rollout/index.js";
import type { AnyTask } from "../src/tasks/task.js";
import { packageRoot } from "../src/util/paths.js";
import { Random } from "../src/util/random.js";
import { CompletionClient, type CompletionServer, ServerSequence } from "./server-sequence.js";

export interface BenchPlayer {
  /** Options of the engine that plays, or whose tokenizer and template llama-server's side uses. */
  readonly engine: EngineOptions;
  readonly temperature: number;
  readonly server: CompletionServer | undefined;
  /** Number of tokens of every turn, for models without useful output: the calls are then the expert's. */
  readonly scripted: number | undefined;
}

export function benchPlayer(settings: BenchPlayer): PlayerSpec {
  // Workers run the compiled module, also when this one is not compiled.
  const module = pathToFileURL(join(packageRoot, "dist/bench/bench-player.js")).href;
  return { kind: "module", module, settings };
}

/** Samples a fixed number of tokens in each turn, without stop tokens. */
function fullTurns(sequence: Sequence, maxTokens: number): Sequence {
  return {
    get length() {
      return sequence.length;
    },
    generate: (options) => sequence.generate({ ...options, stop: [], maxTokens }),
    close: () => sequence.close(),
  };
}

/** Combines the tokens of a sampling session with the calls of the expert: real calls, with results of real sizes. */
function scriptedSession(writer: Session, expert: ExpertSession): Session {
  return {
    async turn(limits) {
      const written = await writer.turn(limits);
      if (written.stop !== "length") return written;
      const { content, calls } = await expert.turn();
      return { content, calls, completionTokens: written.completionTokens, stop: "stop" };
    },
    respond(messages, calls) {
      writer.respond(messages, calls);
      expert.respond(messages, calls);
    },
    tokens: () => writer.tokens(),
    promptTokens: () => writer.promptTokens(),
    close() {
      writer.close();
      expert.close();
    },
  };
}

/** For rollout workers (`PlayerSpec`, kind "module"). */
export async function openSessions(settings: BenchPlayer, task: AnyTask): Promise<SessionSource> {
  const { server, scripted, temperature } = settings;
  const engine = await loadEngine(settings.engine);
  const spec: EnginePlayer = { kind: "engine", engine: settings.engine, sampling: { temperature }, adapter: null };
  const client = server && new CompletionClient(server);
  const players = engineSessions(engine, spec, (prompt, count) => {
    const sequences = client
      ? Array.from({ length: count }, () => new ServerSequence(client, engine, prompt))
      : engine.openGroup(prompt, count);
    return scripted === undefined ? sequences : sequences.map((one) => fullTurns(one, scripted));
  });
  if (scripted === undefined) return players;
  return {
    info: players.info,
    start: (opening, job) =>
      players.start(opening, job).map((session, index) => {
        // One extra search, so that every rollout has four turns.
        const random = new Random(job.members[index]?.seed ?? index);
        return scriptedSession(
          session,
          new ExpertSession(task, job.scenario, random, { mistakes: { repeats_search: 1 } }),
        );
      }),
  };
}
