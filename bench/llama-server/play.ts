/**
 * Whole email rollouts on any engine, in this thread: the template, parser, tools and limits of `yarn rollout`, groups with a
 * common prompt, and so many at once.
 */

import { chatOf } from "../../src/chat/chat.js";
import type { Engine } from "../../src/core/engine/engine.js";
import type { Sequence } from "../../src/core/engine/sequence.js";
import { EngineSession } from "../../src/core/rollout/engine-session.js";
import { opening, playRollout } from "../../src/core/rollout/rollout.js";
import type { Session } from "../../src/core/rollout/session.js";
import type { AnyTask, CallRecord, ChatMessage, Scenario } from "../../src/core/task/task.js";
import { deriveSeed, Random } from "../../src/core/util/random.js";
import { emailTask } from "../../src/email/email-task.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { mailScenarios } from "../rollouts.js";

const task = emailTask as unknown as AnyTask;
const limits = {
  maxTurns: 10,
  maxTokens: 256,
  turnSeconds: 600,
  toolSeconds: 30,
  rolloutSeconds: 3600,
  onToolError: "observe",
} as const;

/** Tokens of a scripted turn, unless the model ends it: models with random weights hardly ever do. */
const SCRIPTED_TOKENS = 40;

/**
 * For models without useful output: the model writes turns of a fixed length, and the calls are the expert's, with one search
 * more, so that every rollout has four turns.
 */
class ScriptedSession implements Session {
  readonly #player: EngineSession;
  readonly #expert: ExpertSession;

  constructor(player: EngineSession, scenario: Scenario) {
    this.#player = player;
    this.#expert = new ExpertSession(task, scenario, new Random("scripted", scenario.id), {
      mistakes: { repeats_search: 1 },
    });
  }

  async turn(...[limits]: Parameters<Session["turn"]>) {
    const { completionTokens } = await this.#player.turn({ ...limits, maxTokens: SCRIPTED_TOKENS });
    return { ...(await this.#expert.turn()), completionTokens };
  }

  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void {
    this.#player.respond(messages);
    this.#expert.respond(messages, calls);
  }

  tokens = () => this.#player.tokens();
  promptTokens = () => this.#player.promptTokens();

  close(): void {
    this.#player.close();
    this.#expert.close();
  }
}

export interface MailSettings {
  readonly groups: number;
  readonly groupSize: number;
  readonly concurrency: number;
  /** Another step has other questions, so that caches do not help more than in a run. */
  readonly step: number;
  /** The calls are the expert's; else the model plays freely. */
  readonly scripted: boolean;
}

export interface Played {
  readonly rollouts: number;
  readonly turns: number;
  /** Sampled ones. */
  readonly tokens: number;
  readonly solved: number;
  readonly seconds: number;
}

export async function playMail(engine: Engine, settings: MailSettings): Promise<Played> {
  const { groupSize, step, scripted } = settings;
  const { scenarios, options } = await mailScenarios(settings.groups, step);
  const env = await task.open(options);
  // Where the model's template shows no tools, hone does so.
  const chat = chatOf(engine, chatOf(engine).showsTools ? {} : { toolFormat: "hermes" });
  const played = { rollouts: 0, turns: 0, tokens: 0, solved: 0 };

  const play = async (scenario: Scenario, sequence: Sequence, prompt: Int32Array, index: number) => {
    const sampling = { temperature: 1, seed: deriveSeed("bench", step, scenario.id, index) };
    const player = new EngineSession(
      engine,
      chat,
      sequence,
      opening(task, scenario, limits.maxTurns),
      prompt,
      sampling,
    );
    const session = scripted ? new ScriptedSession(player, scenario) : player;
    try {
      const { signal } = new AbortController();
      const { turns, completionTokens, reward } = await playRollout({ task, scenario, env, session, limits, signal });
      played.rollouts++;
      played.turns += turns;
      played.tokens += completionTokens;
      played.solved += Number(reward.success === true);
    } finally {
      session.close();
    }
  };
  /** A group's prompt is opened when its first rollout begins, and the others fork it. */
  function* all(): Generator<() => Promise<void>> {
    for (const scenario of scenarios) {
      const { messages, tools } = opening(task, scenario, limits.maxTurns);
      const prompt = Int32Array.from(chat.template.prompt(messages, tools));
      for (const [index, sequence] of engine.openGroup(prompt, groupSize).entries()) {
        yield () => play(scenario, sequence, prompt, index);
      }
    }
  }

  const started = performance.now();
  const waiting = all();
  const player = async () => {
    for (const begin of waiting) await begin();
  };
  try {
    await Promise.all(Array.from({ length: settings.concurrency }, player));
  } finally {
    await task.close(env);
  }
  return { ...played, seconds: (performance.now() - started) / 1000 };
}
