/** Which models train on which machines with default settings, from a model's shape alone. */

import { sizedDefaults } from "../../core/config/config.js";
import { CONTEXT, ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { LINEAR_LAYERS } from "../../core/learn/types.js";
import { lanesOf, UBATCH } from "../../engine/contexts.js";
import { drawsOnDevice } from "../../engine/engine-options.js";
import type { ModelShape } from "../../engine/models.js";
import { type Machine, withFreeChanges } from "./fit.js";
import type { PlanInput } from "./input.js";
import { fits, type Room, waysToFit } from "./remedies.js";

/** Memory sizes of graphics cards in GiB; driver and display use some of it. */
const SOLD = [6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141];
const USABLE = 0.95;

/** A card with this many GiB on a machine with enough main memory. */
export const roomOfCard = (gibibytes: number): Room => ({
  host: Number.POSITIVE_INFINITY,
  gpu: gibibytes * 2 ** 30 * USABLE,
});

/** A run with default settings only. */
export function defaultRun(shape: ModelShape, gpu: PlanInput["gpu"], threads: number): PlanInput {
  const { groupsPerStep, groupSize, loraRank, microBatchTokens } = sizedDefaults(shape.parameters);
  const concurrency = Math.min(groupsPerStep * groupSize, gpu ? ROLLOUTS_AT_ONCE.gpu : ROLLOUTS_AT_ONCE.cpu);
  return {
    shape,
    concurrency,
    context: Math.min(CONTEXT, shape.trainedContext),
    loraRank,
    loraTargets: LINEAR_LAYERS,
    microBatchTokens,
    gradientCheckpointing: false,
    learnerLifetime: "run",
    releaseWeights: false,
    gpu,
    precision: "auto",
    hfWeights: false,
    learner: "auto",
    lanes: lanesOf(shape.bytes, gpu, threads, concurrency),
    ubatch: UBATCH,
    sampling: drawsOnDevice("auto", gpu) ? "device" : "host",
    judge: null,
  };
}

const FREE = { concurrency: true, gradientCheckpointing: true };

/**
 * How a model trains with default settings.
 * - unchanged, or with `changes` that hone makes by itself, or with `flags` that must be given; null: not at all
 */
export type Fit = { readonly changes: Partial<PlanInput> } | { readonly flags: readonly string[] } | null;

export function fitOf(wanted: PlanInput, room: Room): Fit {
  const input = withFreeChanges(wanted, FREE, room);
  if (fits(input, room)) {
    const { gradientCheckpointing, concurrency } = input;
    return {
      changes: {
        ...(gradientCheckpointing ? { gradientCheckpointing } : {}),
        ...(concurrency < wanted.concurrency ? { concurrency } : {}),
      },
    };
  }
  const flags = waysToFit({ ...wanted, lanes: input.lanes }, room);
  return flags ? { flags } : null;
}

/** GiB of the smallest NVIDIA card that trains it without options; null when none does. Planned, not tried. */
export function smallestCard(shape: ModelShape): number | null {
  const wanted = defaultRun(shape, "cuda", 1);
  return SOLD.find((size) => fits(withFreeChanges(wanted, FREE, roomOfCard(size)), roomOfCard(size))) ?? null;
}

/** How a model trains with all memory of a machine, regardless of other programs. */
export function fitHere(shape: ModelShape, { host, gpu }: Machine, kind: PlanInput["gpu"], threads: number): Fit {
  return fitOf(defaultRun(shape, kind, threads), { host: host.total, gpu: gpu?.total ?? 0 });
}

/** "yes", the changes that hone makes by itself, the flags to give, or "no". */
export function fitText(fit: Fit): string {
  if (fit === null) return "no";
  if ("flags" in fit) return fit.flags.join(" ");
  const { gradientCheckpointing, concurrency } = fit.changes;
  const changes = [gradientCheckpointing ? "checkpointing" : "", concurrency ? `${concurrency} at once` : ""];
  const made = changes.filter((text) => text !== "");
  return made.length === 0 ? "yes" : `yes: ${made.join(", ")}`;
}
