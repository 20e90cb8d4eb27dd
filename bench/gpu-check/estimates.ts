/**
 * What hone is expected to do on a card, beside which `yarn gpu-check` puts what it did. All of it is
 * arithmetic: kernels counted where they do not compute, times what a card's makers say of it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import type { UpdateReport } from "../learner-update.js";

export interface Card {
  readonly title: string;
  /** In the name that `nvidia-smi` gives. */
  readonly name: RegExp;
  /** Dense products in bf16 with sums in f32, floating point operations a second, as NVIDIA says. */
  readonly peak: number;
}

export const cards: readonly Card[] = [
  // Whitepapers of Ampere GA102 (the 3060 by cores and clock) and of Ada.
  { title: "RTX 3060", name: /\b3060\b/, peak: 25.5e12 },
  { title: "RTX 3090", name: /\b3090\b/, peak: 71e12 },
  { title: "RTX 4090", name: /\b4090\b(?! ?D| Laptop)/, peak: 165e12 },
  // Datasheets; of the last two half of the rate with sparsity.
  { title: "A100", name: /\bA100\b/, peak: 312e12 },
  { title: "H100", name: /\bH100\b/, peak: 989e12 },
  { title: "H200", name: /\bH200\b/, peak: 989e12 },
];

export const cardOf = (gpu: string): Card | undefined => cards.find(({ name }) => name.test(gpu));

/** Of `yarn bench:card` (bench/card/main.ts), which counts on a card that does not compute and estimates for others. */
const COUNTS = join(packageRoot, "bench/results/card-counts-engine-nvidia-h100-80gb-hbm3.json");

interface CountedRow {
  readonly shape: string;
  readonly type: string;
  readonly traffic: string;
  readonly sequences: number;
  readonly estimates: readonly { readonly card: string; readonly tokensPerSecond: number }[];
}

/**
 * Tokens/s of qwen2.5-0.5b's shape with an adapter, f16 weights and the default settings, by sequences: the estimates of `yarn
 * bench:card`. Empty for a card that it has none for.
 */
export function expectedDecode({ name }: Card): ReadonlyMap<number, number> {
  const { rows } = JSON.parse(readFileSync(COUNTS, "utf8")) as { rows: readonly CountedRow[] };
  const ours = rows.filter(({ shape, type, traffic }) => shape === "0.5b" && type === "f16" && traffic === "decode");
  return new Map(
    ours.flatMap(({ sequences, estimates }) =>
      estimates
        .filter(({ card }) => name.test(card))
        .map(({ tokensPerSecond }) => [sequences, tokensPerSecond] as const),
    ),
  );
}

/** Share of a card's peak that products of this size reach. */
const USED = 0.4;
/**
 * Seconds of the host for one launch, with all of Python between two: an update of four rows, of twice {@link LAUNCHES}, took 0.44 to 0.61 s beside an
 * H200, which worked for 0.26 s of it (bench/results/cuda-2026-11-26-nvidia-h200.json).
 */
const LAUNCH = 6e-5;
/** Of an update of two rows, of layers as many as qwen2.5-0.5b's, on a card that does not compute (docs/gpu.md). */
export const LAUNCHES = 3600;
/** qwen2.5-0.5b: numbers in the matrices of all layers, and in the output layer. */
const WEIGHTS = { layers: 357_826_560, output: 136_134_656 };

/**
 * Seconds of an update of qwen2.5-0.5b's shape: that of its products or that of its launches, whichever is longer. A frozen
 * matrix has a product forward and one backward; the output layer, for sampled tokens alone, three (head.py).
 */
export function updateSeconds(
  { peak }: Card,
  { computed, sampled }: Pick<UpdateReport, "computed" | "sampled">,
): number {
  const products = 2 * (2 * WEIGHTS.layers * computed + 3 * WEIGHTS.output * sampled);
  return Math.max(products / (USED * peak), LAUNCHES * LAUNCH);
}

/** How {@link updateSeconds} comes about, in words. */
export const updateArithmetic = `products at ${100 * USED} % of the card's peak, or ${LAUNCHES} launches of ${LAUNCH * 1e6} µs`;
