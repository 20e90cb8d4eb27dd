/** Whole rollouts of the email task, as in `yarn rollout` and training, with workers, tools and database. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { chatOf } from "../src/chat/chat.js";
import type { LocalEngine, LocalEngineOptions } from "../src/core/engine/engine.js";
import { type Gathered, gather } from "../src/core/gather/gather.js";
import type { RolloutThreads } from "../src/core/gather/threads.js";
import type { PlayerSpec } from "../src/core/rollout/player.js";
import { HoneError } from "../src/core/util/errors.js";
import { packageRoot } from "../src/core/util/paths.js";
import { buildMailDatabase } from "../src/email/building/build.js";
import { emailTask } from "../src/email/email-task.js";

export interface RolloutSettings {
  readonly scenarios: number;
  readonly groupSize: number;
  readonly concurrency: number;
  readonly maxTurns: number;
  /** Maximum number of tokens in a turn. */
  readonly maxTokens: number;
  /** Another step uses other seeds. */
  readonly step: number;
  /** A file with a task on the same mail instead of the built-in one. */
  readonly task?: string;
  readonly onToolError?: "observe" | "stop";
  /** Threads that the steps of a run use again. */
  readonly threads?: RolloutThreads;
}

/** A synthetic mail database, built when first needed. */
async function mailDatabase(): Promise<string> {
  const db = join(packageRoot, "build", "bench-rollout", "mail.db");
  if (!existsSync(db)) {
    await buildMailDatabase({ db, source: { kind: "synthetic", seed: 1, mailboxes: 40, names: "default" } });
  }
  return db;
}

/** Questions of a step, and the task's options. Every step has others, so that caches do not help more than in a run. */
export async function mailScenarios(count: number, step: number) {
  const options = { db: await mailDatabase() };
  const all = await emailTask.scenarios(options);
  const scenarios = Array.from({ length: count }, (_, i) => {
    const scenario = all[(step * count + i) % all.length];
    if (!scenario) throw new HoneError("the synthetic mailbox has no scenarios");
    return scenario;
  });
  return { scenarios, options };
}

/** A rollout that ends with an error of the player counts as played here. */
export async function playEmail(player: PlayerSpec, settings: RolloutSettings): Promise<Gathered> {
  const { scenarios, options: taskOptions } = await mailScenarios(settings.scenarios, settings.step);
  const {
    maxTurns,
    maxTokens,
    groupSize,
    concurrency,
    step,
    threads,
    task = "email",
    onToolError = "observe",
  } = settings;
  const limits = { maxTurns, maxTokens, turnSeconds: 600, toolSeconds: 30, rolloutSeconds: 3600 } as const;
  return gather({
    settings: { task, taskOptions, player, limits: { ...limits, onToolError } },
    scenarios,
    groupSize,
    seedName: "bench",
    step,
    concurrency,
    threads,
    maxExceptions: settings.scenarios * groupSize,
  });
}

function optionsOf(engine: LocalEngine): LocalEngineOptions {
  const { model, gpu, threads, lanes, sequences, contextPerSequence } = engine.info;
  return { model, gpu, threads, lanes, sequences, contextPerSequence };
}

/** The engine as a player, at temperature 1 without truncation. */
export function enginePlayer(engine: LocalEngine): PlayerSpec {
  return playerWith(engine, {});
}

/** The same for an engine loaded with other settings than its device's defaults. */
export function playerWith(
  engine: LocalEngine,
  shapes: Pick<LocalEngineOptions, "pooledKv" | "steadyShapes" | "name">,
): PlayerSpec {
  // Where the model's template shows no tools, hone does so.
  const chat = chatOf(engine).showsTools ? {} : { chat: { toolFormat: "hermes" } };
  const options = { ...optionsOf(engine), ...shapes };
  return { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null, ...chat };
}

export const played = ({ groups, failures }: Gathered) => groups.flat().length + failures.length;

/** Mean number of turns and sampled tokens of a rollout. */
export function meansOf({ groups }: Gathered): { turns: number; tokens: number } {
  const all = groups.flat();
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  return { turns: mean(all.map(({ turns }) => turns)), tokens: mean(all.map((one) => one.completionTokens)) };
}
