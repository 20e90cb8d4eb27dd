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
  /** How queries and keys are normalised: each head by itself, or those of a token together; absent: not at all. */
  readonly headNorms?: "each" | "together";
  /** What is normalised beside those: what attention and feed-forward part read, what they add, or both; absent: the first. */
  readonly norms?: "after" | "both";
  /** Each so many-th layer has no RoPE, as llama.cpp computes it; absent: all have it. */
  readonly unrotated?: number;
  /** Linear layers that are several in one, with the names of their parts; absent: none is. */
  readonly fused?: Readonly<Record<string, readonly string[]>>;
  /** Whether RoPE may rotate a part of a head, and be scaled by LongRoPE's short factors. */
  readonly partlyRotated?: boolean;
  /** Whether tokenizers of SentencePiece's pieces drop white space behind special tokens; no such model is taken. */
  readonly stripping?: boolean;
  /** Whether embeddings and output layer are one tensor where config.json does not say; absent: they are two. */
  readonly tied?: boolean;
  /** Each so many-th layer attends to all tokens, the others through a window; absent: all attend to all. */
  readonly windows?: number;
  /** Linear layers whose names are others than those of an adapter's targets, by these. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** Linear layers of other modules that have adapters where all of these targets do; absent: there are none. */
  readonly beside?: Readonly<Record<string, readonly string[]>>;
  /** Whether layers may have a short convolution in place of attention. */
  readonly convolves?: boolean;
}

/** By llama.cpp's names, as a GGUF file has them in `general.architecture`. */
const TABLE: Readonly<Record<string, Architecture>> = {
  qwen2: { classes: { qwen2: "Qwen2ForCausalLM" }, attentionBias: true },
  qwen3: { classes: { qwen3: "Qwen3ForCausalLM" }, attentionBias: false, headNorms: "each" },
  llama: {
    classes: { llama: "LlamaForCausalLM", mistral: "MistralForCausalLM" },
    attentionBias: false,
  },
  granite: { classes: { granite: "GraniteForCausalLM" }, attentionBias: false },
  olmo2: { classes: { olmo2: "Olmo2ForCausalLM" }, attentionBias: false, headNorms: "together", norms: "after" },
  gemma3: {
    classes: { gemma3_text: "Gemma3ForCausalLM" },
    attentionBias: false,
    headNorms: "each",
    norms: "both",
    windows: 6,
    tied: true,
  },
  phi3: {
    classes: { phi3: "Phi3ForCausalLM" },
    attentionBias: false,
    fused: { qkv_proj: ["q_proj", "k_proj", "v_proj"], gate_up_proj: ["gate_proj", "up_proj"] },
    partlyRotated: true,
    stripping: true,
  },
  smollm3: { classes: { smollm3: "SmolLM3ForCausalLM" }, attentionBias: false, unrotated: 4 },
  lfm2: {
    classes: { lfm2: "Lfm2ForCausalLM" },
    attentionBias: false,
    headNorms: "each",
    tied: true,
    renamed: { o_proj: "out_proj", gate_proj: "w1", up_proj: "w3", down_proj: "w2" },
    // A convolution's input is one layer, as queries, keys and values of attention are three.
    beside: { in_proj: ["q_proj", "k_proj", "v_proj"] },
    convolves: true,
  },
};

/** Names of all, as GGUF files have them. */
export const ARCHITECTURES: readonly string[] = Object.keys(TABLE);

/** @param gguf llama.cpp's name; undefined for others than those of {@link ARCHITECTURES} */
export const architectureNamed = (gguf: string): Architecture | undefined =>
  ARCHITECTURES.includes(gguf) ? TABLE[gguf] : undefined;

/** An adapter's targets, parts of layers, as the layers that they are in a model of this architecture. */
export function adaptedLayers(gguf: string, targets: readonly string[]): string[] {
  const { fused = {}, renamed = {}, beside = {} } = architectureNamed(gguf) ?? {};
  const within = (part: string) => Object.entries(fused).find(([, parts]) => parts.includes(part))?.[0];
  const names = targets.map((part) => within(part) ?? renamed[part] ?? part);
  const more = Object.entries(beside).filter(([, parts]) => parts.every((part) => targets.includes(part)));
  return [...new Set([...names, ...more.map(([name]) => name)])];
}

/** The parts of a layer of which the targets name some and not all: it has no adapter on those alone. */
export const tornLayer = (gguf: string, targets: readonly string[]): readonly string[] | undefined =>
  Object.values(architectureNamed(gguf)?.fused ?? {}).find((parts) => {
    const named = parts.filter((part) => targets.includes(part));
    return named.length > 0 && named.length < parts.length;
  });

/** The targets that an adapter on these layers has; layers that are several in one are all their parts. */
export const targetsOf = (layers: Iterable<string>): string[] => {
  const known = new Map<string, readonly string[]>(
    Object.values(TABLE).flatMap(({ fused, renamed, beside }) => [
      ...Object.entries({ ...fused, ...beside }),
      ...Object.entries(renamed ?? {}).map(([target, name]) => [name, [target]] as const),
    ]),
  );
  return [...layers].flatMap((name) => known.get(name) ?? [name]);
};

/** Class of transformers and llama.cpp's name by `model_type` of config.json. */
export const MODEL_TYPES: ReadonlyMap<string, { readonly class: string; readonly gguf: string }> = new Map(
  Object.entries(TABLE).flatMap(([gguf, { classes }]) =>
    Object.entries(classes).map(([type, name]) => [type, { class: name, gguf }] as const),
  ),
);
