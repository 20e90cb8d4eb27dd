/** A model for rollouts: the engine with its weights and, optionally, an adapter. */
import {
  type Config,
  givenByProgram,
  type LibraryOption,
  libraryOptions,
  optionsOf,
  sizedDefault,
  withDefaults,
} from "../core/config/config.js";
import type { PolicyEngine } from "../core/engine/engine.js";
import { RolloutThreads } from "../core/gather/threads.js";
import type { EnginePlayer } from "../core/rollout/player.js";
import type { RolloutLimits } from "../core/rollout/rollout.js";
import type { Adapter } from "../core/run/records.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { sha256OfFile } from "../core/util/files.js";
import type { EnginePolicy } from "../machine/play/engine-policy.js";
import { limitsOf } from "../machine/play/player-options.js";
import type { Given, Listener } from "./given.js";
import type { OpenTask } from "./task.js";

export type ModelOptions = Given<LibraryOption<"model">> & Listener & { readonly signal?: AbortSignal };

type ModelConfig = Pick<Config, LibraryOption<"model">>;

/** Created by {@link openModel}. */
export class Model {
  readonly engine: PolicyEngine;
  /** Number of concurrent rollouts. */
  readonly concurrency: number;
  /** Threads of this model's rollouts, which outlive a gathering. */
  readonly threads = new RolloutThreads();
  readonly #player: EnginePlayer;
  #adapter: Adapter | null;

  /**
   * @param reference given to {@link openModel}
   * @param config options with defaults filled in
   */
  constructor(
    readonly reference: string,
    readonly config: ModelConfig,
    opened: { engine: PolicyEngine; player: EnginePlayer; concurrency: number },
    readonly log: (line: string) => void,
  ) {
    this.engine = opened.engine;
    this.concurrency = opened.concurrency;
    this.#player = opened.player;
    const { adapter } = opened.player;
    this.#adapter = adapter === null ? null : { path: opened.engine.adapter as string, sha256: adapter };
  }

  /** Properties of the loaded model: file, architecture, vocabulary, devices. */
  get info(): PolicyEngine["info"] {
    return this.engine.info;
  }

  /** The active adapter; null for the base model. */
  get adapter(): Adapter | null {
    return this.#adapter;
  }

  /** Limits of every rollout. */
  get limits(): RolloutLimits & { readonly maxTokens: number } {
    const { maxTokens = sizedDefault("maxTokens", this.info.parameters) } = this.config;
    return limitsOf({ ...this.config, maxTokens }, this.#player.engine);
  }

  /** The description of the player that worker threads get. */
  get player(): EnginePlayer {
    return { ...this.#player, adapter: this.#adapter?.sha256 ?? null };
  }

  /**
   * Activates an adapter for all following rollouts.
   * @param path a GGUF adapter file; null deactivates the adapter
   */
  async useAdapter(path: string | null): Promise<void> {
    await this.engine.useAdapter(path);
    this.#adapter = path === null ? null : { path, sha256: await sha256OfFile(path) };
  }

  /** The model as the policy of a run, which activates the run's adapters on it. */
  async policy(task: OpenTask, releaseWeights: boolean): Promise<EnginePolicy> {
    const { config, log } = this;
    const [{ EnginePolicy }, { chatSettings }] = await Promise.all([
      import("../machine/play/engine-policy.js"),
      import("../core/rollout/conversation.js"),
    ]);
    return new EnginePolicy(this.engine, {
      engine: this.#player.engine,
      task: task.reference,
      taskOptions: task.options,
      servers: task.servers,
      limits: this.limits,
      temperature: this.#player.sampling.temperature ?? 1,
      chat: chatSettings(config),
      concurrency: this.concurrency,
      threads: this.threads,
      maxExceptions: config.maxExceptions,
      releaseWeights,
      onUse: (adapter) => {
        this.#adapter = adapter;
      },
      onFailure: ({ id, error }) => log(`rollout ${id} failed: ${error}`),
      log,
    });
  }

  async close(): Promise<void> {
    await this.threads.close();
    await this.engine.close();
  }
}

/**
 * Finds (downloads, converts) a model and loads it into this process.
 *
 * @param reference as for `--model`: "tiny", a name of `hone models`, a Hub repository, a folder or a file
 * @throws UsageError when an option is wrong, or there is no such model
 * @throws HoneError when the model cannot be loaded
 */
export async function openModel(reference: string, options: ModelOptions = {}): Promise<Model> {
  if (typeof reference !== "string")
    throw new UsageError("openModel(): its first argument is the name of a model, or its path");
  const { log = () => undefined, signal, ...values } = options;
  const given = await givenByProgram(values, libraryOptions("model"));
  const config = withDefaults([...optionsOf("rollout"), ...libraryOptions("model")], { ...given, model: reference });
  const { openPlayerFor } = await import("../machine/play/choose-player.js");
  const { spec, engine, concurrency } = await openPlayerFor(config, log, signal);
  if (!engine || spec.kind !== "engine") throw new HoneError(`${reference} is no model that this machine runs`);
  return new Model(reference, config, { engine, player: spec, concurrency }, log);
}
