/** The engine and its rollout workers, with the interface that the training loop uses. */
import type { EngineOptions, LocalEngine } from "../engine/index.js";
import { gather, type RolloutThreads } from "../gather/index.js";
import type { ServerPlan } from "../mcp/index.js";
import { fitting } from "../play/index.js";
import type { ChatSettings, RolloutFailure, RolloutLimits } from "../rollout/index.js";
import type { Adapter, ProbeReading } from "../run/index.js";
import type { PlainOptions } from "../tasks/index.js";
import type { Played, PlayRequest, Policy } from "./parts.js";
import { measureProbe, readProbe } from "./probe.js";

export interface EnginePolicySettings {
  readonly engine: EngineOptions;
  /** Task file or name, as workers load it. */
  readonly task: string;
  readonly taskOptions: PlainOptions;
  readonly servers?: ServerPlan | undefined;
  readonly limits: RolloutLimits;
  readonly temperature: number;
  readonly chat?: ChatSettings;
  /** Concurrent rollouts; fewer after the first time that memory does not suffice for them. */
  readonly concurrency: number;
  readonly workers: number | undefined;
  /** Threads that each play uses again; their owner closes them before the engine. By default each play has its own. */
  readonly threads?: RolloutThreads;
  readonly maxExceptions: number;
  /** Frees the weights too while it sleeps, not the KV cache alone. */
  readonly releaseWeights: boolean;
  readonly onFailure: (failure: RolloutFailure) => void;
  readonly log: (text: string) => void;
}

export class EnginePolicy implements Policy {
  readonly #engine: LocalEngine;
  readonly #settings: EnginePolicySettings;
  #adapter: Adapter | null = null;
  /** Adapter whose probe has not been scored since it was loaded. */
  #unseen: string | null = null;
  #concurrency: number;

  constructor(engine: LocalEngine, settings: EnginePolicySettings) {
    this.#engine = engine;
    this.#settings = settings;
    this.#concurrency = settings.concurrency;
  }

  /** Concurrent rollouts. */
  get concurrency(): number {
    return this.#concurrency;
  }

  async use(adapter: Adapter | null): Promise<void> {
    const path = adapter?.path ?? null;
    if (path !== this.#engine.adapter) {
      await this.#engine.useAdapter(path);
      this.#unseen = path;
    }
    this.#adapter = adapter;
  }

  async probe(): Promise<ProbeReading | null> {
    const path = this.#unseen;
    this.#unseen = null;
    const probe = path === null ? undefined : readProbe(path);
    return probe ? measureProbe(this.#engine, probe) : null;
  }

  async play({ run, step, scenarios, groupSize, have, signal, onTrajectory, onGroup }: PlayRequest): Promise<Played> {
    const { engine, task, taskOptions, servers, limits, temperature, chat = {} } = this.#settings;
    const { workers, threads, maxExceptions, onFailure } = this.#settings;
    return gather({
      settings: {
        task,
        taskOptions,
        servers,
        limits,
        player: { kind: "engine", engine, sampling: { temperature }, chat, adapter: this.#adapter?.sha256 ?? null },
      },
      run,
      step,
      scenarios,
      groupSize,
      have,
      concurrency: this.#concurrency,
      threads,
      maxExceptions,
      signal,
      onTrajectory,
      onFailure,
      onNote: this.#settings.log,
      ...(onGroup === undefined ? {} : { onGroup }),
      ...(workers === undefined ? {} : { workers }),
    });
  }

  async sleep(): Promise<void> {
    await this.#engine.sleep({ weights: this.#settings.releaseWeights });
  }

  async wake(): Promise<void> {
    const attempt = (sequences: number) => this.#engine.wake({ sequences });
    const awake = await fitting(this.#concurrency, attempt, this.#settings.log, this.#engine.info.lanes);
    this.#concurrency = awake.sequences;
  }
}
