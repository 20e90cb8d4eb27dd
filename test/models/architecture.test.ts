/** Which models are taken, told from config.json as their makers publish it. */
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { checkArchitecture, refusedBecause } from "../../src/machine/models/architecture.js";

const qwen = {
  architectures: ["Qwen2ForCausalLM"],
  model_type: "qwen2",
  num_attention_heads: 14,
  sliding_window: 32768,
  use_sliding_window: false,
  rope_theta: 1e6,
};
const llama = { architectures: ["LlamaForCausalLM"], model_type: "llama" };

const gemma = {
  architectures: ["Gemma3ForCausalLM"],
  model_type: "gemma3_text",
  head_dim: 256,
  query_pre_attn_scalar: 256,
  sliding_window: 512,
  sliding_window_pattern: 6,
  rope_scaling: null,
  rope_local_base_freq: 10000,
  final_logit_softcapping: null,
  attn_logit_softcapping: null,
  hidden_activation: "gelu_pytorch_tanh",
};
const phi = {
  architectures: ["Phi3ForCausalLM"],
  model_type: "phi3",
  original_max_position_embeddings: 4096,
  max_position_embeddings: 131072,
  sliding_window: 262144,
};
const lfm = {
  architectures: ["Lfm2ForCausalLM"],
  model_type: "lfm2",
  block_ff_dim: 12288,
  block_auto_adjust_ff_dim: true,
  conv_L_cache: 3,
  conv_bias: false,
  full_attn_idxs: [2, 5, 8, 10, 12, 14],
  tie_embedding: true,
};
const mistral = { architectures: ["MistralForCausalLM"], model_type: "mistral", max_position_embeddings: 32768 };
const published = ["qwen2.5-small", "qwen3-small", "llama3.2-small", "llama2-small", "mistral-small", "gemma3-small"];

beforeAll(() => ensureTestModels(["tiny", "published"], () => undefined), 900_000);

describe("taken", () => {
  it.each([
    ["Qwen2.5, which names a window and does not use it", qwen],
    ["Qwen3", { ...qwen, architectures: ["Qwen3ForCausalLM"], model_type: "qwen3", head_dim: 128, rope_scaling: null }],
    ["Llama 3.2, with its own stretched rotation", { ...llama, rope_scaling: { rope_type: "llama3", factor: 32 } }],
    [
      "SmolLM2, whose config has lists and nulls",
      { ...llama, rope_scaling: null, attention_bias: false, "transformers.js_config": {} },
    ],
    ["Mistral 7B v0.3 and Nemo, without a window", { ...mistral, sliding_window: null, head_dim: 128 }],
    ["Mistral with a window as long as its context", { ...mistral, sliding_window: 32768 }],
    [
      "SmolLM3, without RoPE in each fourth layer",
      {
        architectures: ["SmolLM3ForCausalLM"],
        model_type: "smollm3",
        no_rope_layer_interval: 4,
        no_rope_layers: [1, 1, 1, 0, 1, 1],
        use_sliding_window: false,
        sliding_window: null,
      },
    ],
    [
      "Granite 3.3, with its multipliers",
      {
        architectures: ["GraniteForCausalLM"],
        model_type: "granite",
        embedding_multiplier: 12,
        logits_scaling: 8,
        attention_multiplier: 0.015625,
        residual_multiplier: 0.22,
        attention_bias: false,
        rope_scaling: null,
      },
    ],
    [
      "Qwen2.5 in its longest context",
      {
        architectures: ["Qwen2ForCausalLM"],
        model_type: "qwen2",
        rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 32768 },
      },
    ],
    ["LFM2 1.2B", lfm],
    ["LFM2.5, whose layers are named", { ...lfm, layer_types: ["conv", "full_attention"], full_attn_idxs: undefined }],
    ["OLMo 2", { architectures: ["Olmo2ForCausalLM"], model_type: "olmo2", rope_scaling: null }],
    ["Gemma 3 1B", gemma],
    ["Phi 4, which scales nothing", { ...phi, rope_scaling: null, sliding_window: null }],
    [
      "Phi-4-mini",
      { ...phi, partial_rotary_factor: 0.75, rope_scaling: { type: "longrope", long_factor: [], short_factor: [] } },
    ],
    [
      "Gemma 3 270M, whose layers are named",
      {
        ...gemma,
        sliding_window_pattern: undefined,
        _sliding_window_pattern: 6,
        use_bidirectional_attention: false,
        layer_types: Array.from({ length: 18 }, (_, layer) =>
          layer % 6 === 5 ? "full_attention" : "sliding_attention",
        ),
      },
    ],
    ["layers that all attend in full", { ...qwen, layer_types: ["full_attention", "full_attention"] }],
  ])("%s", (_, config) => {
    expect(refusedBecause(config)).toBeUndefined();
  });

  it.each([
    "qwen2-tiny",
    "qwen3-tiny",
    "llama-tiny",
    "mistral-tiny",
    "smollm3-tiny",
    "granite-tiny",
    "olmo2-tiny",
    "gemma3-tiny",
    "phi3-tiny",
    "lfm2-tiny",
    ...published,
  ])("%s, as transformers writes it", (name) => {
    expect(refusedBecause(JSON.parse(readFileSync(`${modelPath(name)}/config.json`, "utf8")))).toBeUndefined();
  });
});

describe("refused, with the reason", () => {
  it.each([
    [
      "Qwen3-Next",
      { model_type: "qwen3_next", layer_types: ["linear_attention", "full_attention"], num_experts: 512 },
      /^its architecture is qwen3_next/,
    ],
    ["Jamba", { model_type: "jamba", attn_layer_period: 8, mamba_d_state: 16 }, /^its architecture is jamba/],
    ["LFM2 with experts", { ...lfm, model_type: "lfm2_moe", num_experts: 32 }, /^its architecture is lfm2_moe/],
    ["LFM2 with another state", { ...lfm, layer_types: ["conv", "linear_attention"] }, /^it has layers of linear_att/],
    ["LFM2 with biases", { ...lfm, conv_bias: true }, /^its convolutions have biases, which llama\.cpp's have not$/],
    ["LFM2 that convolves nothing", { ...lfm, conv_L_cache: 1 }, /^its convolutions read no earlier token/],
    ["LFM2 with a window", { ...lfm, layer_types: ["conv", "sliding_attention"] }, /^it attends through a sliding/],
    ["LFM2 with YaRN", { ...lfm, rope_scaling: { rope_type: "yarn", factor: 4 } }, /^it scales RoPE by yarn/],
    ["Mamba", { model_type: "mamba", state_size: 16 }, /^its architecture is mamba/],
    ["Qwen3-30B-A3B", { ...qwen, model_type: "qwen3_moe", num_experts: 128 }, /^its architecture is qwen3_moe/],
    [
      "gpt-oss",
      { model_type: "gpt_oss", num_local_experts: 32, layer_types: ["sliding_attention", "full_attention"] },
      /^its architecture is gpt_oss/,
    ],
    ["Qwen3.5", { ...qwen, model_type: "qwen3_5_text" }, /^its architecture is qwen3_5_text/],
    ["Mixtral", { model_type: "mixtral", num_local_experts: 8, sliding_window: null }, /^its architecture is mixtral/],
    [
      "Gemma 3 with other layers in full",
      { ...gemma, sliding_window_pattern: 2 },
      /^it has windows of attention in oth/,
    ],
    [
      "the same by its layers",
      { ...gemma, layer_types: ["full_attention"] },
      /^it has windows of attention in other lay/,
    ],
    [
      "Gemma 3 without a window",
      { ...gemma, sliding_window: null },
      /^it does not say how long its sliding_window is$/,
    ],
    [
      "Gemma 3 with bounded logits",
      { ...gemma, final_logit_softcapping: 30 },
      /^it has final_logit_softcapping, which/,
    ],
    [
      "EmbeddingGemma's attention",
      { ...gemma, use_bidirectional_attention: true },
      /^it has use_bidirectional_attention/,
    ],
    [
      "Gemma 3 with another scale of queries",
      { ...gemma, query_pre_attn_scalar: 168 },
      /^it scales queries by 168, llama\.cpp by the size of a head$/,
    ],
    [
      "Gemma 3 with another activation",
      { ...gemma, hidden_activation: "silu" },
      /^its activation is silu, llama\.cpp's/,
    ],
    [
      "Gemma 3 with windows that scale RoPE",
      { ...gemma, rope_parameters: { full_attention: {}, sliding_attention: { rope_type: "linear" } } },
      /^it scales RoPE by linear in layers with a window/,
    ],
    [
      "Gemma 3 with YaRN",
      { ...gemma, rope_parameters: { full_attention: { rope_type: "yarn" }, sliding_attention: {} } },
      /^it scales RoPE by yarn/,
    ],
    ["Gemma 2", { model_type: "gemma2", sliding_window: 4096 }, /^its architecture is gemma2/],
    ["OLMo 3", { model_type: "olmo3", layer_types: ["sliding_attention"] }, /^its architecture is olmo3/],
    [
      "Gemma 3 4B, which sees images",
      { ...gemma, model_type: "gemma3", architectures: ["Gemma3ForConditionalGeneration"], vision_config: {} },
      /^its architecture is gemma3;/,
    ],
    ["Mistral 7B v0.1", { ...mistral, sliding_window: 4096 }, /^it attends through a sliding window$/],
    ["Mistral that names no window, which is then 4096", mistral, /^it attends through a sliding window$/],
    [
      "Mistral with a switch of Qwen2's, which it has not",
      { ...mistral, sliding_window: 4096, use_sliding_window: false },
      /^it attends through a sliding window$/,
    ],
    [
      "a Mistral with a variant of YaRN",
      { ...mistral, sliding_window: null, rope_parameters: { rope_type: "yarn", factor: 16, mscale_all_dim: 1 } },
      /^it scales RoPE by a variant of YaRN \(mscale_all_dim\)/,
    ],
    ["Qwen2 with its window on", { ...qwen, use_sliding_window: true }, /^it attends through a sliding window$/],
    ["GPT-OSS-like layers", { ...llama, layer_types: ["sliding_attention", "full_attention"] }, /sliding window$/],
    ["Phi-3-mini-4k", { ...phi, sliding_window: 2047, max_position_embeddings: 4096 }, /^it attends through a sliding/],
    ["Phi with another scaling of RoPE", { ...phi, rope_scaling: { type: "llama3" } }, /^it scales RoPE by llama3/],
    ["StableLM", { model_type: "stablelm", partial_rotary_factor: 0.25 }, /^its architecture is stablelm/],
    [
      "GLM, as transformers 5 writes it",
      { ...llama, rope_parameters: { partial_rotary_factor: 0.5 } },
      /^it rotates 0\.5/,
    ],
    ["a vision model", { ...qwen, model_type: "qwen2_vl", vision_config: {} }, /^its architecture is qwen2_vl/],
    [
      "another family",
      { model_type: "gpt2" },
      /^its architecture is gpt2; hone takes qwen2, qwen3, llama, mistral, granite, olmo2, gemma3_text, phi3, smollm3, lfm2$/,
    ],
    ["nothing named", {}, /^its architecture is not named/],
    ["GPTQ weights", { ...qwen, quantization_config: { quant_method: "gptq" } }, /^its weights are quantised \(gptq\)/],
    [
      "SmolLM3 without RoPE in other layers",
      { model_type: "smollm3", no_rope_layers: [1, 0, 1, 0] },
      /^it has RoPE in other layers/,
    ],
    ["the same by its interval", { model_type: "smollm3", no_rope_layer_interval: 2 }, /^it has RoPE in other layers/],
    ["Llama with layers without RoPE", { ...llama, no_rope_layers: [1, 0] }, /^it has RoPE in other layers/],
    ["another scaling", { ...qwen, rope_scaling: { type: "dynamic", factor: 4 } }, /^it scales RoPE by dynamic/],
    ["a reward model", { ...qwen, architectures: ["Qwen2ForSequenceClassification"] }, /^it writes no text/],
    [
      "a class of its own before the known one",
      { ...qwen, architectures: ["LLaDAModelLM", "Qwen2ForCausalLM"] },
      /^it writes no text \(LLaDAModelLM\)$/,
    ],
    [
      "a class of its own, which names a known type",
      { ...llama, architectures: ["InternLM2ForCausalLM"], auto_map: { AutoModelForCausalLM: "modeling.Model" } },
      /^it is of the class InternLM2ForCausalLM, a computation of its own; hone takes LlamaForCausalLM$/,
    ],
  ])("%s", (_, config, reason) => {
    expect(refusedBecause(config)).toMatch(reason);
  });

  it("in one line that names the model", () => {
    expect(() => checkArchitecture({ model_type: "gpt2" }, "Org/Name")).toThrow(/^Org\/Name cannot be used: its arch/);
  });
});
