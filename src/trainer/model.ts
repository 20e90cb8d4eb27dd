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
import type { EnginePlaying, EnginePolicy } from "../machine/play/engine-policy.js";
import { limitsOf } from "../machine/play/player-options.js";
import type { Given, Listener } from "./given.js";
import type { OpenTask } from "./task.js";

export type ModelOptions = Given<LibraryOption<"model">> & Listener & { readonly signal?: AbortSignal };

type ModelConfig = Pick<Config, LibraryOption<"model">>;

/** Created by {@link openModel}. */
export class Model {
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
    readonly engine: PolicyEngine,
    player: EnginePlayer,
    readonly log: (line: string) => void,
  ) {
    this.#player = player;
    const { adapter } = player;
    this.#adapter = adapter === null ? null : { path: engine.adapter as string, sha256: adapter };
  }

  /** Number of concurrent rollouts. */
  get concurrency(): number {
    return this.#player.engine.sequences;
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

  /** How rollouts of a task are gathered on it. */
  playing({ reference, options, servers }: OpenTask): EnginePlaying {
    const { player, limits, concurrency, threads, config, log } = this;
    return {
      settings: { task: reference, taskOptions: options, servers, player, limits },
      concurrency,
      threads,
      maxExceptions: config.maxExceptions,
      onFailure: ({ id, error }) => log(`rollout ${id} failed: ${error}`),
    };
  }

  /** The model as the policy of a run, which activates the run's adapters on it. */
  async policy(task: OpenTask, releaseWeights: boolean): Promise<EnginePolicy> {
    const { EnginePolicy } = await import("../machine/play/engine-policy.js");
    const onUse = (adapter: Adapter | null) => {
      this.#adapter = adapter;
    };
    return new EnginePolicy(this.engine, { ...this.playing(task), releaseWeights, onUse, log: this.log });
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
  const { spec, engine } = await openPlayerFor(config, log, signal);
  if (!engine || spec.kind !== "engine") throw new HoneError(`${reference} is no model that this machine runs`);
  return new Model(reference, config, engine, spec, log);
}
