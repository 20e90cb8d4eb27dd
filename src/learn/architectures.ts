/**
 * The architectures that engine and learner compute: what TypeScript needs to know of each. native/learner/architectures.py
 * has what the learner needs; a test compares the two.
 */

export interface Architecture {
  /**
   * transformers' class by `model_type` of config.json. Models of several types are one architecture of llama.cpp where their
   * computation is the same.
   */
  readonly classes: Readonly<Record<string, string>>;
  /** Whether queries, keys and values have biases. */
  readonly attentionBias: boolean;
  /** Whether queries and keys are normalised per head. */
  readonly headNorms: boolean;
  /** Each so many-th layer has no RoPE, as llama.cpp computes it; absent: all have it. */
  readonly unrotated?: number;
}

/** By llama.cpp's names, as a GGUF file has them in `general.architecture`. */
const TABLE: Readonly<Record<string, Architecture>> = {
  qwen2: { classes: { qwen2: "Qwen2ForCausalLM" }, attentionBias: true, headNorms: false },
  qwen3: { classes: { qwen3: "Qwen3ForCausalLM" }, attentionBias: false, headNorms: true },
  llama: {
    classes: { llama: "LlamaForCausalLM", mistral: "MistralForCausalLM" },
    attentionBias: false,
    headNorms: false,
  },
  granite: { classes: { granite: "GraniteForCausalLM" }, attentionBias: false, headNorms: false },
  smollm3: { classes: { smollm3: "SmolLM3ForCausalLM" }, attentionBias: false, headNorms: false, unrotated: 4 },
};

/** Names of all, as GGUF files have them. */
export const ARCHITECTURES: readonly string[] = Object.keys(TABLE);

/** @param gguf llama.cpp's name; undefined for others than those of {@link ARCHITECTURES} */
export const architectureNamed = (gguf: string): Architecture | undefined =>
  ARCHITECTURES.includes(gguf) ? TABLE[gguf] : undefined;

/** Class of transformers and llama.cpp's name by `model_type` of config.json. */
export const MODEL_TYPES: ReadonlyMap<string, { readonly class: string; readonly gguf: string }> = new Map(
  Object.entries(TABLE).flatMap(([gguf, { classes }]) =>
    Object.entries(classes).map(([type, name]) => [type, { class: name, gguf }] as const),
  ),
);
