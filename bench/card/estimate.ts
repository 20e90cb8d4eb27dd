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
 * Tokens a second that llama.cpp made of one sequence of Llama-2-7B, its kernels launched one by one and in a graph, as those who
 * wrote its graphs measured it in April 2024: github.com/ggml-org/llama.cpp, issue 6763 (Alan Gray, NVIDIA: H100 PCIe) and pull
 * request 6766 (Johannes Gäßler: RTX 4090, 3090). Bytes of the weights as llama-bench tells them (3.80 and 3.56 GiB), bandwidth by
 * NVIDIA's data sheets.
 */
export const MEASURED = [
  { card: "H100 PCIe", weights: 3.8 * 2 ** 30, bandwidth: 2.0e12, launched: 143.35, inGraph: 163.83 },
  { card: "RTX 4090", weights: 3.56 * 2 ** 30, bandwidth: 1.008e12, launched: 138.31, inGraph: 146.81 },
  { card: "RTX 3090", weights: 3.56 * 2 ** 30, bandwidth: 0.936e12, launched: 116.31, inGraph: 128.27 },
] as const;

/**
 * Kernels of a token there: in each of 32 layers 30 (two for each of seven products, which quantise their input; norms and their
 * weights 4, RoPE 2, copies into the cache 2, attention 4, sums 2, SiLU and its product 2), and 4 of the output.
 */
const KERNELS = 32 * 30 + 4;
/** Share of a token's time in which the card works: 85 to 90 % (Alan Gray, llama.cpp's issue 7456). */
const AT_WORK = 0.875;
/** Share of its memory's bandwidth that a card reaches. Assumed; clpeak's copy reaches 0.94 of an A100's. */
const REACHED = 0.8;

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
/** Seconds of a kernel in a graph besides its bytes: what {@link MEASURED} leaves beside reading the weights; 2.9, 1.3 and 1.8 µs. */
const inGraph = mean(
  MEASURED.map((one) => (AT_WORK / one.inGraph - one.weights / (REACHED * one.bandwidth)) / KERNELS),
);
/** What launching it alone adds: 0.9, 0.4 and 0.8 µs. */
const alone = mean(MEASURED.map((one) => (1 / one.launched - 1 / one.inGraph) / KERNELS));

export const formula =
  "seconds = max((bytes of weights + cells of KV read * bytes of a cell) / (reached * bandwidth), " +
  "(2 * numbers of weights * rows + operations of a cell * attended cells) / (used * peak)) + kernels in graphs * inGraph + " +
  "kernels launched alone * launched + waits * wait + bytes to and from the host / bus; " +
  "bandwidth = 2 * memory clock * bus width / 8; peak of products in bf16, for f16 beyond 16 rows a pass in f32";

export const constants = {
  /** Seconds of a kernel besides its bytes and products, in a graph and launched alone: derived from {@link MEASURED}. */
  inGraph,
  launched: inGraph + alone,
  /**
   * Seconds of a wait: as from a launch to its kernel, 5.7 µs on an A100 by clpeak (github.com/krrishnarraj/clpeak,
   * results/NVIDIA_CUDA/NVIDIA_A100-SXM4-40GB.log), whose README has 6.7 for both ways together on an RTX 5060.
   */
  wait: 5.7e-6,
  reached: REACHED,
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
  const { inGraph, launched, wait, reached, used, bus } = constants;
  const bytes = counts.weightBytes + counts.cellsRead * cellBytes;
  const rows = counts.sampled + counts.prefilled + counts.paddingRows;
  const inF32 = exact && rows > 16 * counts.passes;
  const seconds = {
    bytes: bytes / (reached * bandwidthOf(profile)),
    products:
      (2 * numbers * rows) / (used * (inF32 ? f32Of(profile) : bf16Of(profile))) +
      (attention * counts.attendedCells) / (used * bf16Of(profile)),
    kernels: (counts.kernels - counts.launches) * inGraph + counts.launches * launched,
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
