/**
 * Activations that a forward pass of the learner keeps for its backward pass, counted tensor by tensor from the layers of
 * transformers and PEFT, and from native/learner/attention.py. test/plan/activations.full.test.ts compares the count with the
 * tensors that PyTorch's autograd saves.
 */
import type { ModelShape } from "../engine/index.js";
import { adaptedLayers, architectureNamed, type Precision } from "../learn/index.js";
import { adapterParameters } from "./input.js";

/** Alignment of mask rows in native/learner/attention.py, in numbers. A test compares the two constants. */
export const MASK_ALIGNMENT = 8;

/** Layout of a row's tokens: the memory that attention keeps depends on it. */
export interface RowLayout {
  readonly prompt: number;
  /** Positions of each completion after the prompt, in one tree. The first continues the prompt, the others branch off. */
  readonly completions: readonly number[];
}

export interface PassSettings {
  readonly shape: ModelShape;
  readonly loraRank: number;
  readonly loraTargets: readonly string[];
  readonly precision: Precision;
  /** Quantised weights stay blocks: the values of one product exist during it. */
  readonly blocks: boolean;
}

export interface Activations {
  /** Bytes that one layer keeps. */
  readonly layer: number;
  /** The output of a layer, which is all that gradient checkpointing keeps of it. */
  readonly between: number;
  /** What the first layer does not keep: the input of its norm, which needs no gradient. */
  readonly unkept: number;
  /** RoPE rotations and masks, which all layers share. */
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
    on("gate_proj", "up_proj", "gate_up_proj"),
  ];
  const inputs = half ? attentionInputs + gatedInputs : Math.min(1, attentionInputs) + Math.min(1, gatedInputs);
  const norms = 4 * (placed === "both" ? 4 : 2) * (d + 1);
  // Queries and keys are normalised in f32.
  const sums = normed === "each" ? heads + kvHeads : 2;
  const headNorms = normed === undefined ? 0 : 4 * (query + keyValue + sums);
  // Values of a layer that is several in one hold its queries and keys, of which there are rotated copies.
  const held = fused === undefined ? 0 : width * (query + keyValue);
  const attention = width * query * (2 + on("o_proj")) + 4 * heads + held;
  const gated = width * ff * (3 + on("down_proj"));
  const low = width * loraRank * adapted.length;
  const perToken = norms + headNorms + width * d * inputs + attention + gated + low;
  // Keys and values of the row, then the copies for branches.
  const keysAndValues = 2 * width * keyValue * (tokens + reach);
  const converted = half ? (2 * adapterParameters(shape, loraRank, loraTargets)) / shape.layers : 0;
  return {
    layer: tokens * perToken + keysAndValues + converted,
    between: 4 * d * tokens,
    unkept: placed === "after" ? 0 : 4 * d * tokens,
    // Layers with a window have another RoPE.
    shared: (shape.window === undefined ? 8 : 16) * headSize * tokens + width * masks,
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
