/**
 * Activations that a forward pass of the learner keeps for its backward pass, counted tensor by tensor from the layers of
 * transformers and PEFT, and from native/learner/attention.py. test/plan/activations.full.test.ts compares the count with the
 * tensors that PyTorch's autograd saves.
 */

import type { Precision } from "../../core/learn/types.js";
import { attendingLayers } from "../../engine/models.js";
import { adaptedLayers, architectureNamed } from "../architectures.js";
import { adaptedLinears } from "../linears.js";
import { adapterParameters, type PlanInput } from "./input.js";

/** Alignment of mask rows in native/learner/attention.py, in numbers. A test compares the two constants. */
export const MASK_ALIGNMENT = 8;

/** Layout of a row's tokens: the memory that attention keeps depends on it. */
export interface RowLayout {
  readonly prompt: number;
  /** Positions of each completion after the prompt, in one tree. The first continues the prompt, the others branch off. */
  readonly completions: readonly number[];
}

export interface PassSettings extends Pick<PlanInput, "shape" | "loraRank" | "loraTargets"> {
  readonly precision: Precision;
  /** Quantised weights stay blocks: the values of one product exist during it. */
  readonly blocks: boolean;
}

export interface Activations {
  /** Bytes that one layer keeps, in the mean where some attend and others convolve. */
  readonly layer: number;
  /** The output of a layer, which is all that gradient checkpointing keeps of it. */
  readonly between: number;
  /** What the first layer does not keep: the input of its norm, which needs no gradient; and those before it all. */
  readonly unkept: number;
  /** RoPE rotations, masks and places that convolutions read, which all layers share. */
  readonly shared: number;
  /** The input of the last norm. */
  readonly last: number;
  /** Gradients of one layer's feed-forward part, which exist beside everything kept when the backward pass begins. */
  readonly gradients: number;
}

export function activations(settings: PassSettings, rows: readonly RowLayout[]): Activations {
  const { shape, loraRank, loraTargets, precision } = settings;
  const { embedding: d, feedForward: ff, heads, kvHeads, headSize } = shape;
  const half = precision !== "f32";
  const width = half ? 2 : 4;
  const [query, keyValue] = [heads * headSize, kvHeads * headSize];
  const { headNorms: normed, norms: placed, fused } = architectureNamed(shape.architecture) ?? {};
  const attending = attendingLayers(shape).length;
  // Branches of equal length share a mask.
  const maskOf = (length: number, before: number) =>
    length * Math.ceil((before + length) / MASK_ALIGNMENT) * MASK_ALIGNMENT;
  let [tokens, reach, masks] = [0, 0, 0];
  for (const { prompt, completions } of rows) {
    tokens += prompt + completions.reduce((total, length) => total + length, 0);
    // Each branch has a copy of its prompt's keys and values before its own. Short branches that attend together
    // (native/learner/blocks.py) need fewer copies.
    const branches = completions.slice(1);
    for (const length of branches) reach += prompt + length;
    for (const length of new Set(branches)) masks += maskOf(length, prompt);
    const parts = [[prompt + (completions[0] ?? 0), 0], ...[...new Set(branches)].map((length) => [length, prompt])];
    for (const [length = 0, before = 0] of parts) {
      // Layers with a window have masks of their own where a part reaches beyond it.
      if (shape.window !== undefined && before + length > shape.window) masks += maskOf(length, before);
    }
  }

  const adapted = adaptedLayers(shape.architecture, loraTargets);
  const on = (...names: string[]) => names.filter((name) => adapted.includes(name)).length;
  // An adapter keeps its input; autocast converts it for each layer anew, f32 layers share it.
  const [attentionInputs, gatedInputs] = [
    on("q_proj", "k_proj", "v_proj", "qkv_proj"),
    on("gate_proj", "up_proj", "gate_up_proj", "w1", "w3"),
  ];
  const inputs = (adapters: number) => width * d * (half ? adapters : Math.min(1, adapters));
  const norms = 4 * (placed === "both" ? 4 : 2) * (d + 1);
  // Queries and keys are normalised in f32.
  const sums = normed === "each" ? heads + kvHeads : 2;
  const headNorms = normed === undefined ? 0 : 4 * (query + keyValue + sums);
  // Values of a layer that is several in one hold its queries and keys, of which there are rotated copies.
  const held = fused === undefined ? 0 : width * (query + keyValue);
  const attention = width * query * (2 + on("o_proj", "out_proj")) + 4 * heads + held;
  const gated = width * ff * (3 + on("down_proj", "w2"));
  const linears = adaptedLinears(shape, loraTargets);
  const low = (width * loraRank * linears.reduce((total, { layers }) => total + layers.length, 0)) / shape.layers;
  // Keys and values of the row, then the copies for branches.
  const keysAndValues = 2 * width * keyValue * (tokens + reach);
  const attends = tokens * (headNorms + inputs(attentionInputs) + attention) + keysAndValues;
  // The three parts of a convolution's input, and what it makes of them, in f32.
  const convolves = tokens * (inputs(on("in_proj")) + width * d * (3 + on("out_proj")) + 4 * d);
  const mixing = (attending * attends + (shape.layers - attending) * convolves) / shape.layers;
  // Layers before the first with an adapter, which are some with convolutions where attention alone has one, keep nothing.
  const first = Math.min(...linears.flatMap(({ layers }) => layers));
  const idle = first > 0 && Number.isFinite(first) ? first * (tokens * (norms + gated) + convolves) : 0;
  const converted = half ? (2 * adapterParameters(shape, loraRank, loraTargets)) / shape.layers : 0;
  // For each position that a convolution reads its place, and whether there is one.
  const places = (1 + 8) * Math.max(0, (shape.convolution?.taps ?? 0) - 1);
  return {
    layer: tokens * (norms + inputs(gatedInputs) + gated + low) + mixing + converted,
    between: 4 * d * tokens,
    unkept: (placed === "after" ? 0 : 4 * d * tokens) + idle,
    // Layers with a window have another RoPE.
    shared: ((shape.window === undefined ? 8 : 16) * headSize + places) * tokens + width * masks,
    last: (4 * d + 4) * tokens,
    gradients: tokens * (2 * width * ff + 4 * d),
  };
}

/** Bytes kept between the forward and the backward pass. */
export function kept(
  { layer, between, unkept, shared, last }: Activations,
  layers: number,
  gradientCheckpointing: boolean,
): number {
  return (gradientCheckpointing ? layers * between : layers * layer - unkept) + shared + last;
}
