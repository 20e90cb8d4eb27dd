/**
 * The models that hone supports: those whose architecture is implemented in engine and learner. Decided by config.json
 * alone.
 */

import { HoneError } from "../../core/util/errors.js";
import { type Architecture, architectureNamed, MODEL_TYPES } from "../architectures.js";

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
const above = (value: unknown, least: number) => typeof value === "number" && value > least;

/** RoPE types that the learner implements; "linear" scales evenly, "llama3" by Llama 3's factors. */
const ROPES = ["default", "linear", "llama3"];
/** Settings of YaRN in config.json that llama.cpp's files do not have, or that it applies in another way. */
const YARN_VARIANTS = [
  "attention_factor",
  "attn_factor",
  "extrapolation_factor",
  "mscale",
  "mscale_all_dim",
  "truncate",
];

/** Windows that transformers takes where config.json has no `sliding_window`; these types have no switch beside it. */
const WINDOWS: Readonly<Record<string, number>> = { mistral: 4096 };
/** Of Gemma's configuration, where llama.cpp computes something else or the learner nothing. */
const SOFTCAPS = ["attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"];
const GELU = "gelu_pytorch_tanh";

/** Whether some token of the model's context does not attend to all before it. */
function isWindowed(config: Json, type: string): boolean {
  const unnamed = WINDOWS[type];
  // Qwen2's configuration names a window that is off.
  if (unnamed === undefined && typeof config.use_sliding_window === "boolean") return config.use_sliding_window;
  const window = config.sliding_window === undefined ? unnamed : config.sliding_window;
  if (window === undefined || window === null) return false;
  return !(Number(window) >= Number(config.max_position_embeddings));
}

/**
 * What a model whose layers attend in two ways computes otherwise than llama.cpp, as a clause; undefined: nothing.
 *
 * @param every each so many-th layer attends to all tokens
 */
function computedElsewise(config: Json, every: number, layers: readonly string[], local: string): string | undefined {
  if (!above(config.sliding_window, 0)) return "it does not say how long its sliding_window is";
  const attends = (layer: number) => ((layer + 1) % every === 0 ? "full_attention" : "sliding_attention");
  if (
    (config.sliding_window_pattern ?? config._sliding_window_pattern ?? every) !== every ||
    layers.some((layer, number) => layer !== attends(number))
  ) {
    return "it has windows of attention in other layers than llama.cpp";
  }
  if ((config.query_pre_attn_scalar ?? 256) !== (config.head_dim ?? 256))
    return `it scales queries by ${config.query_pre_attn_scalar}, llama.cpp by the size of a head`;
  const set = SOFTCAPS.find((key) => config[key]);
  if (set) return `it has ${set}, which the learner does not apply`;
  if (local !== "default") return `it scales RoPE by ${local} in layers with a window, llama.cpp by nothing`;
  const activation = config.hidden_activation ?? GELU;
  return activation === GELU ? undefined : `its activation is ${activation}, llama.cpp's ${GELU}`;
}

/**
 * Whether RoPE is in other layers than those in which llama.cpp applies it.
 *
 * @param every each so many-th layer has none there
 */
function isRotatedElsewhere(config: Json, every: number | undefined): boolean {
  const named = config.no_rope_layers;
  if (every === undefined) return Array.isArray(named) && named.includes(0);
  if (Array.isArray(named)) return named.some((rotated, layer) => (rotated === 0) !== ((layer + 1) % every === 0));
  return (config.no_rope_layer_interval ?? every) !== every;
}

/**
 * The reason why a model is not supported, as a clause; undefined when it is. A type that is not known is all that is said of
 * mixtures of experts, of hybrids, and of models for images or sound: each has a type of its own.
 */
export function refusedBecause(config: Json): string | undefined {
  const type = String(config.model_type ?? "");
  const known = MODEL_TYPES.get(type);
  if (known === undefined) {
    return `its architecture is ${type || "not named"}; hone takes ${[...MODEL_TYPES.keys()].join(", ")}`;
  }
  const { convolves, partlyRotated, unrotated, windows: every } = architectureNamed(known.gguf) as Architecture;
  const layers = Array.isArray(config.layer_types) ? config.layer_types.map(String) : [];
  const kinds = ["full_attention", "sliding_attention", ...(convolves ? ["conv"] : [])];
  const other = layers.find((layer) => !kinds.includes(layer));
  if (other !== undefined) return `it has layers of ${other}, which the learner does not compute`;
  if (convolves && config.conv_bias === true) return "its convolutions have biases, which llama.cpp's have not";
  if (convolves && !above(config.conv_L_cache ?? 3, 1))
    return "its convolutions read no earlier token, which llama.cpp's do";
  if (every === undefined && (isWindowed(config, type) || layers.includes("sliding_attention")))
    return "it attends through a sliding window";

  const ropes = [config.rope_scaling, config.rope_parameters].find(isObject) ?? {};
  const typeOf = (rope: Json) => String(rope.rope_type ?? rope.type ?? "default");
  // One for all layers, or one each for those without and those with a window.
  const [rope, local] = [ropes.full_attention ?? ropes, ropes.sliding_attention ?? {}].map((one) =>
    isObject(one) ? one : {},
  ) as [Json, Json];
  const rotated = [config.partial_rotary_factor, rope.partial_rotary_factor, config.rotary_pct].find(
    (factor) => typeof factor === "number" && factor !== 1,
  );
  if (rotated !== undefined && !partlyRotated)
    return `it rotates ${rotated} of each head (partial rotary), the learner rotates all`;
  const quantised = isObject(config.quantization_config) ? config.quantization_config : undefined;
  if (quantised) return `its weights are quantised (${String(quantised.quant_method ?? "unknown")}); give the original`;
  if (isRotatedElsewhere(config, unrotated)) return "it has RoPE in other layers than llama.cpp applies it to";
  const all = convolves ? ["default"] : every === undefined ? [...ROPES, "yarn"] : ROPES;
  const scaled = partlyRotated ? ["default", "longrope", "su"] : all;
  if (!scaled.includes(typeOf(rope))) return `it scales RoPE by ${typeOf(rope)}, which the learner does not`;
  const variant = typeOf(rope) === "yarn" ? YARN_VARIANTS.find((key) => (rope[key] ?? null) !== null) : undefined;
  if (variant) return `it scales RoPE by a variant of YaRN (${variant}), which the learner does not`;
  const elsewise = every === undefined ? undefined : computedElsewise(config, every, layers, typeOf(local));
  if (elsewise !== undefined) return elsewise;
  // The first is the one that transformers and llama.cpp take.
  const [named] = Array.isArray(config.architectures) ? config.architectures.map(String) : [];
  if (named === undefined || named === known.class) return undefined;
  // A model of another class is another computation, often by Python code of its own, whatever type it names.
  if (!named.endsWith("ForCausalLM")) return `it writes no text (${named})`;
  return `it is of the class ${named}, a computation of its own; hone takes ${known.class}`;
}

/** @throws HoneError in one line that gives the reason */
export function checkArchitecture(config: Json, name: string): void {
  const reason = refusedBecause(config);
  if (reason) throw new HoneError(`${name} cannot be used: ${reason}`);
}
