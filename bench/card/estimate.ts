/**
 * Tokens a second of a card, from what it was asked to do: arithmetic, not a measurement. Work takes as long as its bytes or its
 * products, whichever is longer, and besides what each kernel, wait and copy costs whatever it does. The host's own time
 * (planning a batch, building graphs) is not in it.
 */
import profiles from "../../test/null-card/cards.json" with { type: "json" };
import { cards } from "../gpu-check/estimates.js";
import type { Counts } from "./counts.js";

export type Profile = keyof typeof profiles;
export const profileNames = Object.keys(profiles) as Profile[];

/**
 * "Getting Started with CUDA Graphs" (https://developer.nvidia.com/blog/cuda-graphs/, NVIDIA, 2019, on a V100) gives for a kernel of
 * 2.9 µs: 9.6 µs where the host waits after each, 3.8 µs launched one after the other, 3.4 µs in a graph.
 * Quoted from memory, and of an old card: look the page up before a difference of this size decides anything. What others measured of the
 * host's part of a launch, by which a pass takes longer where the card is faster than the host: 2.6 µs at least
 * (github.com/makslevental/persistent_kernel, README.md, driver 510), 4 to 6 µs in a program for inference ("pegainfer (3): From Launch
 * Overhead to CUDA Graph", 2026).
 */
const BLOG = { kernel: 2.9e-6, waited: 9.6e-6, launched: 3.8e-6, inGraph: 3.4e-6 };

export const formula =
  "seconds = max((bytes of weights + cells of KV read * bytes of a cell) / (reached * bandwidth), " +
  "(2 * numbers of weights * rows + operations of a cell * attended cells) / (used * peak)) + kernels in graphs * (kernel + gapInGraph) + " +
  "kernels launched alone * (kernel + gapLaunched) + waits * wait + bytes to and from the host / bus; " +
  "bandwidth = 2 * memory clock * bus width / 8; peak of products in bf16, for f16 beyond 16 rows a pass in f32";

export const constants = {
  /** Seconds of the shortest kernel: some dependent reads of memory. Assumed. */
  kernel: 1.5e-6,
  /** Seconds between kernels, by {@link BLOG}. */
  gapInGraph: BLOG.inGraph - BLOG.kernel,
  gapLaunched: BLOG.launched - BLOG.kernel,
  /** Seconds of a wait of the host, by {@link BLOG}. */
  wait: BLOG.waited - BLOG.launched,
  /** Share of its memory's bandwidth that a card reaches. Assumed. */
  reached: 0.8,
  /** Share of its peak of products. Assumed; as in bench/gpu-check/estimates.ts. */
  used: 0.4,
  /** Bytes a second to the card and back: PCIe 4.0 x16 has 31.5e9, of which 0.8 are assumed. */
  bus: 25e9,
} as const;

/**
 * Products in f32, operations a second: two for each core and clock. A multiprocessor has 128 cores, an A100's 64 (NVIDIA's
 * whitepapers). llama.cpp multiplies so where f16 weights are summed in 32 bits and a pass has more than 16 rows.
 */
const f32Of = (profile: Profile) => {
  const { sms, clock } = profiles[profile];
  return 2 * sms * (profile === "a100" ? 64 : 128) * clock * 1000;
};

/** Products in bf16; of the laptop's card by multiprocessors and clock beside the 4090, which are of one generation. */
function bf16Of(profile: Profile): number {
  const known = cards.find(({ name }) => name.test(profiles[profile].name))?.peak;
  return known ?? (bf16Of("4090") * f32Of(profile)) / f32Of("4090");
}

/** Bytes a second: two transfers a clock, over all lines. */
export const bandwidthOf = (profile: Profile) => (2 * profiles[profile].memoryClock * 1000 * profiles[profile].bus) / 8;

export const fits = (profile: Profile, { memory }: Counts) => memory <= profiles[profile].memory;

/** What the arithmetic takes of each card. */
export const cardFacts = Object.fromEntries(
  profileNames.map((profile) => [
    profiles[profile].name,
    { bandwidth: bandwidthOf(profile), peak: { bf16: bf16Of(profile), f32: f32Of(profile) } },
  ]),
);

export interface About {
  /** Numbers in the matrices that every row is multiplied by. */
  readonly numbers: number;
  /** Bytes of a cell of KV in all layers. */
  readonly cellBytes: number;
  /** Operations of a row of attention with one cell, in all layers: two products of each head's queries. */
  readonly attention: number;
  /** Weights whose products are in f32 beyond 16 rows. */
  readonly exact: boolean;
}

export interface Estimate {
  readonly card: string;
  readonly tokensPerSecond: number;
  /** Milliseconds of an average pass, and what they consist of. */
  readonly pass: Readonly<Record<"all" | "bytes" | "products" | "kernels" | "waits" | "bus", number>>;
}

export function estimate(profile: Profile, counts: Counts, { numbers, cellBytes, attention, exact }: About): Estimate {
  const { kernel, gapInGraph, gapLaunched, wait, reached, used, bus } = constants;
  const bytes = counts.weightBytes + counts.cellsRead * cellBytes;
  const rows = counts.sampled + counts.prefilled + counts.paddingRows;
  const inF32 = exact && rows > 16 * counts.passes;
  const seconds = {
    bytes: bytes / (reached * bandwidthOf(profile)),
    products:
      (2 * numbers * rows) / (used * (inF32 ? f32Of(profile) : bf16Of(profile))) +
      (attention * counts.attendedCells) / (used * bf16Of(profile)),
    kernels: (counts.kernels - counts.launches) * (kernel + gapInGraph) + counts.launches * (kernel + gapLaunched),
    waits: counts.synchronisations * wait,
    bus: (counts.bytesToHost + counts.bytesToCard) / bus,
  };
  const all = Math.max(seconds.bytes, seconds.products) + seconds.kernels + seconds.waits + seconds.bus;
  const milliseconds = (value: number) => Number(((1000 * value) / counts.passes).toFixed(3));
  return {
    card: profiles[profile].name,
    tokensPerSecond: Math.round(counts.sampled / all),
    pass: {
      all: milliseconds(all),
      bytes: milliseconds(seconds.bytes),
      products: milliseconds(seconds.products),
      kernels: milliseconds(seconds.kernels),
      waits: milliseconds(seconds.waits),
      bus: milliseconds(seconds.bus),
    },
  };
}
