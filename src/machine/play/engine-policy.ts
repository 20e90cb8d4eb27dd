/** The engine and its rollout workers, with the interface that the training loop uses. */
import { isDeepStrictEqual } from "node:util";
import type { PolicyEngine } from "../../core/engine/engine.js";
import { type GatherOptions, gather } from "../../core/gather/gather.js";
import type { WorkerSettings } from "../../core/gather/job.js";
import type { EnginePlayer } from "../../core/rollout/player.js";
import type { Adapter, ProbeReading } from "../../core/run/records.js";
import type { PlayRequest, PlayResult, Policy } from "../../core/train/parts.js";
import { sha256OfFile } from "../../core/util/files.js";
import { fitting } from "../../engine/fitting.js";
import { type Probe, type ProbeScores, readingOf, readProbe, scoreProbe, scoreStart } from "../../guards/probe.js";

/** How rollouts on an engine are gathered, whatever is asked for. */
export interface EnginePlaying extends Omit<GatherOptions, keyof PlayRequest | "onNote"> {
  readonly settings: WorkerSettings & { readonly player: EnginePlayer };
}

/** Concurrent rollouts are fewer after the first time that memory does not suffice for them. */
export interface EnginePolicySettings extends EnginePlaying {
  /** Frees the weights too while it sleeps, not the KV cache alone. */
  readonly releaseWeights: boolean;
  /** Called with each adapter that is in use from now on. */
  readonly onUse?: (adapter: Adapter | null) => void;
  readonly log: (text: string) => void;
}

/** A probe of the adapter in use that has not been scored with it. */
interface Unseen {
  readonly probe: Probe;
  /** Adapter file that was used before, null for none, and the engine's scores of the probe's start with it. */
  readonly from: string | null;
  readonly earlier: ProbeScores;
}

/** The adapter that the engine was last seen to load, by its file's digest, and its scores of a probe with it. */
interface Seen {
  readonly sha256: string;
  /** An update at a learning rate of 0 makes the same adapter with another. */
  readonly probe: Probe;
  readonly scores: ProbeScores;
}

/** Engines that a policy put to sleep: a model's outlives the runs that play on it. */
const asleep = new WeakSet<PolicyEngine>();

export class EnginePolicy implements Policy {
  readonly #engine: PolicyEngine;
  readonly #settings: EnginePolicySettings;
  #adapter: Adapter | null = null;
  #unseen: Unseen | undefined;
  #seen: Seen | undefined;
  #concurrency: number;

  constructor(engine: PolicyEngine, settings: EnginePolicySettings) {
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
    const from = this.#engine.adapter;
    if (path !== from) {
      this.#unseen = undefined;
      const probe = path === null ? undefined : readProbe(path);
      const earlier = probe && (await scoreStart(this.#engine, probe));
      await this.#engine.useAdapter(path);
      this.#unseen = probe && earlier && { probe, from, earlier };
    }
    this.#adapter = adapter;
    this.#settings.onUse?.(adapter);
  }

  async probe(): Promise<ProbeReading | null> {
    if (!this.#unseen) return null;
    const { probe, from, earlier } = this.#unseen;
    this.#unseen = undefined;
    const sha256 = this.#adapter?.sha256 as string;
    // Loaded again, as after a validation of another policy, it only has to be there.
    const isSeen = this.#seen?.sha256 === sha256 && isDeepStrictEqual(this.#seen.probe, probe);
    const now = isSeen ? this.#seen?.scores : await scoreProbe(this.#engine, probe);
    if (!now) return null;
    const reading = readingOf(probe, now, { earlier, now: await scoreStart(this.#engine, probe) });
    if (reading.moved !== 0) this.#seen = { sha256, probe, scores: now };
    // A fork's first checkpoint has the same adapter as the one that it was copied from.
    const same = reading.moved === 0 && from !== null && (await sha256OfFile(from)) === sha256;
    return same ? { ...reading, moved: null } : reading;
  }

  async play(request: PlayRequest): Promise<PlayResult> {
    const { settings, log, releaseWeights: _, onUse: __, ...playing } = this.#settings;
    const player = { ...settings.player, adapter: this.#adapter?.sha256 ?? null };
    const concurrency = this.#concurrency;
    return gather({ ...playing, ...request, settings: { ...settings, player }, concurrency, onNote: log });
  }

  async sleep(): Promise<void> {
    asleep.add(this.#engine);
    await this.#engine.sleep({ weights: this.#settings.releaseWeights });
  }

  async wake(): Promise<void> {
    if (!asleep.has(this.#engine)) return;
    const attempt = (sequences: number) => this.#engine.wake({ sequences });
    const { info } = this.#engine;
    const least = "lanes" in info ? info.lanes : 1;
    const awake = await fitting(this.#concurrency, attempt, this.#settings.log, least);
    this.#concurrency = awake.sequences;
    asleep.delete(this.#engine);
  }
}
