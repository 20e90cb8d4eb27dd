/** Whole rollouts of the email task, as in `yarn rollout` and training, with workers, tools and database. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { LlamaServerOptions, LocalEngine, LocalEngineOptions } from "../src/engine/index.js";
import { type Gathered, gather, type RolloutThreads } from "../src/gather/index.js";
import { chatOf, type PlayerSpec } from "../src/rollout/index.js";
import { buildMailDatabase } from "../src/tasks/email/building/build.js";
import { emailTask } from "../src/tasks/index.js";
import { HoneError } from "../src/util/errors.js";
import { packageRoot } from "../src/util/paths.js";
import { needDevice, toolEnvironment } from "./llama-tools.js";

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

/** A rollout that ends with an error of the player counts as played here. */
export async function playEmail(player: PlayerSpec, settings: RolloutSettings): Promise<Gathered> {
  const taskOptions = { db: await mailDatabase() };
  const all = await emailTask.scenarios(taskOptions);
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
    // Every step has other questions, so that caches do not help more than in a run.
    scenarios: Array.from({ length: settings.scenarios }, (_, i) => {
      const scenario = all[(step * settings.scenarios + i) % all.length];
      if (!scenario) throw new HoneError("the synthetic mailbox has no scenarios");
      return scenario;
    }),
    groupSize,
    run: "bench",
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

/** Options of a llama-server at a port that plays the engine's model: see `startServer`. */
export function serverOptions({ info }: LocalEngine, port: number, logprobs = true): LlamaServerOptions {
  const { model, gpu, sequences, contextPerSequence } = info;
  return { kind: "llama-server", url: `http://127.0.0.1:${port}`, logprobs, model, gpu, sequences, contextPerSequence };
}

/** A llama-server as a player, at temperature 1 without truncation. */
export function serverPlayer(engine: LocalEngine, port: number, logprobs = true): PlayerSpec {
  const options = serverOptions(engine, port, logprobs);
  return { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null };
}

export const played = ({ groups, failures }: Gathered) => groups.flat().length + failures.length;

/** Mean number of turns and sampled tokens of a rollout. */
export function meansOf({ groups }: Gathered): { turns: number; tokens: number } {
  const all = groups.flat();
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  return { turns: mean(all.map(({ turns }) => turns)), tokens: mean(all.map((one) => one.completionTokens)) };
}

export interface Server {
  readonly port: number;
  readonly process: ChildProcess;
  stop(): Promise<void>;
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === "string") throw new HoneError("no port is free");
  return address.port;
}

/**
 * llama-server at a port, with an engine's model, threads, batch sizes and context, as many slots, and its prompt cache on (the
 * default).
 *
 * @throws HoneError when it does not start, or cannot use the engine's GPU
 */
export async function startServer(program: string, engine: LocalEngine, port: number): Promise<Server> {
  const { info } = engine;
  await needDevice(program, engine);
  const args = [
    ...["-m", info.model, "-c", info.contextPerSequence * info.sequences, "--parallel", info.sequences],
    ...["-t", info.threads, "-tb", info.threads, "-b", info.batch, "-ub", info.ubatch],
    ...["-ngl", info.gpu === false ? 0 : 999],
    ...["--host", "127.0.0.1", "--port", port, "--log-disable"],
  ].map(String);
  const server = spawn(program, args, { stdio: "ignore", env: toolEnvironment() });
  await healthy(server, `http://127.0.0.1:${port}`);
  return {
    port,
    process: server,
    async stop() {
      server.kill("SIGKILL");
      if (server.exitCode === null && server.signalCode === null) await new Promise((end) => server.once("close", end));
    },
  };
}

async function healthy(server: ChildProcess, url: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (Date.now() < deadline && server.exitCode === null) {
    const response = await fetch(`${url}/health`).catch(() => undefined);
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  server.kill("SIGKILL");
  throw new HoneError("llama-server did not start");
}
