/**
 * The players of rollout benches, opened in the workers: hone's own session on the engine's sequences or on
 * llama-server's, free or to a script. Everything but the sequence is the same on either side.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type EngineOptions, type GenerateOptions, loadEngine, type Sequence } from "../src/engine/index.js";
import {
  type EnginePlayer,
  ExpertSession,
  enginePlayers,
  type PlayerSpec,
  type Players,
  type Session,
  type Turn,
  type TurnLimits,
} from "../src/rollout/index.js";
import type { AnyTask, CallRecord, ChatMessage } from "../src/task/task.js";
import { packageRoot } from "../src/util/paths.js";
import { Random } from "../src/util/random.js";
import { CompletionClient, type CompletionServer, ServerSequence } from "./server-sequence.js";

export interface BenchPlayer {
  /** Of the engine that plays, or that lends llama-server's side its tokenizer and template. */
  readonly engine: EngineOptions;
  readonly temperature: number;
  readonly server: CompletionServer | undefined;
  /** Tokens of every turn, for models that write nothing sensible: the calls are then those of the task's expert. */
  readonly scripted: number | undefined;
}

export function benchPlayer(settings: BenchPlayer): PlayerSpec {
  // Workers run what is compiled, whoever asks.
  const module = pathToFileURL(join(packageRoot, "dist/bench/bench-player.js")).href;
  return { kind: "module", module, settings };
}

/** Writes a set number of tokens each turn, whatever they are. */
class FullTurns implements Sequence {
  readonly #sequence: Sequence;
  readonly #tokens: number;

  constructor(sequence: Sequence, tokens: number) {
    this.#sequence = sequence;
    this.#tokens = tokens;
  }

  get length(): number {
    return this.#sequence.length;
  }

  generate(options: GenerateOptions) {
    return this.#sequence.generate({ ...options, stop: [], maxTokens: this.#tokens });
  }

  close(): void {
    this.#sequence.close();
  }
}

/** The player writes tokens, the expert says what they meant: real calls, and real results of real sizes. */
class ScriptedSession implements Session {
  readonly #writer: Session;
  readonly #expert: ExpertSession;

  constructor(writer: Session, expert: ExpertSession) {
    this.#writer = writer;
    this.#expert = expert;
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    const written = await this.#writer.turn(limits);
    if (written.stop !== "length") return written;
    const { content, calls } = await this.#expert.turn();
    return { content, calls, completionTokens: written.completionTokens, stop: "stop" };
  }

  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void {
    this.#writer.respond(messages, calls);
    this.#expert.respond(messages, calls);
  }

  tokens() {
    return this.#writer.tokens();
  }

  promptTokens(): number {
    return this.#writer.promptTokens();
  }

  close(): void {
    this.#writer.close();
    this.#expert.close();
  }
}

/** For rollout workers (`PlayerSpec`, kind "module"). */
export async function openPlayer(settings: BenchPlayer, task: AnyTask): Promise<Players> {
  const { server, scripted, temperature } = settings;
  const engine = await loadEngine(settings.engine);
  const spec: EnginePlayer = { kind: "engine", engine: settings.engine, sampling: { temperature }, adapter: null };
  const client = server && new CompletionClient(server);
  const players = enginePlayers(engine, spec, (prompt, count) => {
    const sequences = client
      ? Array.from({ length: count }, () => new ServerSequence(client, engine, prompt))
      : engine.openGroup(prompt, count);
    return scripted === undefined ? sequences : sequences.map((one) => new FullTurns(one, scripted));
  });
  if (scripted === undefined) return players;
  return {
    info: players.info,
    start: (opening, job) =>
      players.start(opening, job).map((session, index) => {
        // One search too many, so that every rollout has four turns.
        const random = new Random(job.members[index]?.seed ?? index);
        return new ScriptedSession(
          session,
          new ExpertSession(task, job.scenario, random, { mistakes: { repeats_search: 1 } }),
        );
      }),
  };
}
