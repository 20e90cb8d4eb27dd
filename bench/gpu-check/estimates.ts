/**
 * What hone is expected to do on a card, beside which the page of `yarn gpu-check --first` puts what it did. All of it is
 * arithmetic: kernels counted where they do not compute, times what a card's makers say of it.
 */
import type { UpdateReport } from "../learner-update.js";

export interface Card {
  readonly title: string;
  /** In the name that `nvidia-smi` gives. */
  readonly name: RegExp;
  /** Dense products in bf16 with sums in f32, floating point operations a second, by NVIDIA's whitepapers. */
  readonly peak: number;
  /** Tokens/s of qwen2.5-0.5b with an adapter, f16 weights and the default settings, by sequences; if it was estimated. */
  readonly decode?: Readonly<Record<number, number>>;
}

export const cards: readonly Card[] = [
  { title: "RTX 3060", name: /\b3060\b/, peak: 25.5e12 },
  { title: "RTX 3090", name: /\b3090\b/, peak: 71e12 },
  { title: "RTX 4090", name: /\b4090\b(?! ?D| Laptop)/, peak: 165e12, decode: { 1: 330, 8: 2200, 64: 7000 } },
  { title: "A100", name: /\bA100\b/, peak: 312e12 },
  { title: "H100", name: /\bH100\b/, peak: 989e12, decode: { 1: 430, 8: 2800, 64: 9000 } },
];

export const cardOf = (gpu: string): Card | undefined => cards.find(({ name }) => name.test(gpu));

/** Share of a card's peak that products of this size reach. */
const USED = 0.4;
/** Seconds of the host for one launch, Python and PyTorch included. */
const LAUNCH = 6e-6;
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
