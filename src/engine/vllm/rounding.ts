/**
 * The type in which a server keeps adapters: vLLM rounds them to 16 bits where it computes in 16 bits. Seen by adapters of two rows
 * of A that differ by less than a rounding, with opposite columns of B: where both are rounded to the same numbers they cancel.
 */
import type { HttpClient } from "../http.js";
import type { ModelShape } from "../models.js";
import type { AdapterFolder } from "./adapters.js";
import { loadAdapter, score, unloadAdapter } from "./protocol.js";

export type AdapterType = "F32" | "F16" | "BF16";

/** Between two numbers near 1: BF16 has 7 bits behind the point, and F16 10. */
const STEPS = [
  ["BF16", 2 ** -10],
  ["F16", 2 ** -13],
] as const;
/** Two rows that every type tells apart, and that change as much. */
const TOLD = 2 ** -3;
/** Share of that change below which two rows cancel: other batches round otherwise, in 16 bits by some hundredths of a nat. */
const CANCELLED = 0.2;

export interface RoundingTrial {
  readonly ids: readonly number[];
  /** Of the base model. */
  readonly scores: Float32Array;
  readonly shape: ModelShape;
  /** Unused names. */
  readonly names: readonly [string, string, string];
}

/** Nats. */
export const meanDistance = (one: Float32Array, other: Float32Array) =>
  one.reduce((sum, value, i) => sum + Math.abs(value - (other[i] as number)), 0) / one.length;

/** @returns "F32" also where it takes no adapters of rank 2 */
export async function adapterType(
  client: HttpClient,
  folder: AdapterFolder,
  { ids, scores, shape, names: [told, ...others] }: RoundingTrial,
): Promise<AdapterType> {
  const change = async (name: string, step: number): Promise<number | undefined> => {
    folder.publishOpposed(name, shape, step);
    if (await loadAdapter(client, name, folder.pathOf(name))) return undefined;
    try {
      return meanDistance(await score(client, { model: name, salt: name }, ids, 1), scores);
    } finally {
      await unloadAdapter(client, name);
    }
  };
  const whole = await change(told, TOLD);
  if (whole === undefined) return "F32";
  for (const [i, [type, step]] of STEPS.entries()) {
    const changed = await change(others[i] as string, step);
    if (changed !== undefined && changed < CANCELLED * whole) return type;
  }
  return "F32";
}
