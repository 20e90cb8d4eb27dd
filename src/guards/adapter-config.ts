/** The form of a checkpoint's adapter, as its own file says it, beside the options of the run. */
import { LINEAR_LAYERS } from "../core/learn/types.js";
import type { RunSettings } from "../core/run/settings.js";
import { demanding, type Guard } from "../core/train/guard.js";
import { HoneError } from "../core/util/errors.js";

/** Of PEFT's adapter_config.json. */
export interface AdapterConfig {
  readonly r: number;
  readonly lora_alpha: number;
  readonly target_modules: readonly string[] | string;
}

export interface AdapterReader {
  /** Of the step's own checkpoint. */
  adapterConfig(step: number): AdapterConfig;
}

export type AdapterOptions = Pick<RunSettings, "loraRank" | "loraAlpha" | "loraTargets">;

/** @throws HoneError where the adapter has another form than the run */
export function checkAdapterConfig(
  step: number,
  { r, lora_alpha: alpha, target_modules: modules }: AdapterConfig,
  { loraRank, loraAlpha, loraTargets }: AdapterOptions,
): void {
  const wanted = [...loraTargets].sort().join();
  // Some models have several of those layers in one, under another name.
  const named = Array.isArray(modules) && modules.every((name) => LINEAR_LAYERS.includes(name));
  const pairs: readonly (readonly [option: string, found: unknown, wanted: unknown])[] = [
    ["--lora-rank", r, loraRank],
    ["--lora-alpha", alpha, loraAlpha],
    ["--lora-targets", named ? [...modules].sort().join() : wanted, wanted],
  ];
  const other = pairs.find(([, found, run]) => found !== run);
  if (other === undefined) return;
  const [option, found, run] = other;
  throw new HoneError(
    `the adapter of step ${step} has ${option} ${found}, and the run ${run}; the step was taken back`,
  );
}

export const adapterGuard = (reader: AdapterReader, run: AdapterOptions): Guard => ({
  name: "the adapter's form, by the run's options",
  sees: "an adapter of another rank, scale or on other layers than the run's options say",
  afterCommit: ({ step, learnt }) =>
    learnt?.applied
      ? demanding("take the commit back", () => checkAdapterConfig(step, reader.adapterConfig(step), run))
      : undefined,
});
