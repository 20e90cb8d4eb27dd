/** The linear layers of a model that adapters may be on, with their sizes and the layers of the model that have them. */
import { attendingLayers, type ModelShape } from "../engine/models.js";
import { adaptedLayers } from "./architectures.js";

export interface Linear {
  /** transformers' name within a layer: "self_attn.q_proj". */
  readonly module: string;
  readonly inputs: number;
  readonly outputs: number;
  /** Numbers of the layers that have it. */
  readonly layers: readonly number[];
}

/** Those that have adapters with these targets. */
export function adaptedLinears(shape: ModelShape, targets: readonly string[]): Linear[] {
  const { embedding: d, feedForward: ff, heads, kvHeads, headSize, convolution } = shape;
  const [queries, keys] = [heads * headSize, kvHeads * headSize];
  const attending = attendingLayers(shape);
  const all = Array.from({ length: shape.layers }, (_, layer) => layer);
  const of = (part: string, layers: readonly number[], sizes: Readonly<Record<string, readonly [number, number]>>) =>
    Object.entries(sizes).map(([name, [inputs, outputs]]) => ({ module: `${part}.${name}`, inputs, outputs, layers }));
  const names = adaptedLayers(shape.architecture, targets);
  return [
    ...of("self_attn", attending, {
      q_proj: [d, queries],
      k_proj: [d, keys],
      v_proj: [d, keys],
      qkv_proj: [d, queries + 2 * keys],
      o_proj: [queries, d],
      out_proj: [queries, d],
    }),
    ...of("conv", convolution?.layers ?? [], { in_proj: [d, 3 * d], out_proj: [d, d] }),
    ...of("mlp", all, { gate_proj: [d, ff], up_proj: [d, ff], gate_up_proj: [d, 2 * ff], down_proj: [ff, d] }),
    ...of("feed_forward", all, { w1: [d, ff], w3: [d, ff], w2: [ff, d] }),
  ].filter(({ module }) => names.includes(module.slice(module.indexOf(".") + 1)));
}
