/**
 * Identifies the rounding of a step: device and precision of the engine that played and of the learner that trained.
 * Distances between the two are comparable only between steps with the same identification.
 */
import type { PolicyEngine } from "../engine/engine.js";
import type { StepMetrics, StepSettings } from "../learn/types.js";

/** @param learner null in a step without an update */
export const numericsOf = (engine: string, learner: string | null) =>
  `engine ${engine}${learner === null ? "" : `, learner ${learner}`}`;

export function engineNumerics({ compute }: Pick<PolicyEngine["info"], "compute">): string {
  const { backend, device, offloadedLayers, layers, weights, kv, flashAttention, adapters } = compute;
  const part = offloadedLayers > 0 && offloadedLayers < layers ? ` ${offloadedLayers}/${layers} layers` : "";
  const more = `${flashAttention ? " flash attention" : ""}${adapters ? ` adapters ${adapters}` : ""}`;
  return `${backend} ${device}${part} ${weights} KV ${kv}${more}`;
}

const TYPE_OF_ROUNDED = { F16: "f16", BF16: "bf16", "F16-A": "f16-a", "BF16-A": "bf16-a" } as const;
type Rounded = keyof typeof TYPE_OF_ROUNDED;
type AdapterType = NonNullable<StepSettings["adapterType"]>;

/** The type that an engine computes its adapters in, by the learner's name. @param rounded absent where they are not */
export const adapterTypeOf = (rounded?: Rounded): AdapterType => (rounded ? TYPE_OF_ROUNDED[rounded] : "f32");

/** The same of a step that was made, from its {@link numericsOf}. */
export const adapterTypeIn = (numerics: string): AdapterType =>
  adapterTypeOf(/ adapters (B?F16(?:-A)?)(?:, learner |$)/.exec(numerics)?.[1] as Rounded | undefined);

/** @param hfWeights whether its base weights came from --hf-weights instead of the engine's file */
export function learnerNumerics(update: Pick<StepMetrics, "device" | "precision">, hfWeights: boolean): string {
  return `${update.device} ${update.precision}${hfWeights ? " with --hf-weights" : ""}`;
}

/** The learner's part of {@link numericsOf}. */
export const learnerPart = (numerics: string): string | null => /, learner (.*)$/.exec(numerics)?.[1] ?? null;
