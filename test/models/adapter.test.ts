/** Adapters in PEFT's form that are another change of the model than the product of their matrices. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { safetensors, vector } from "../../src/core/learn/safetensors.js";
import { readPeft } from "../../src/machine/models/adapter.js";

const home = mkdtempSync(join(tmpdir(), "hone-peft-"));
afterAll(() => rmSync(home, { recursive: true }));

const NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora";
const weights = safetensors({ [`${NAME}_A.weight`]: vector("F32", [1]), [`${NAME}_B.weight`]: vector("F32", [1]) }, {});

/** Reads an adapter of rank 4 with these fields beside those that PEFT 0.21 writes for every one. */
function read(fields: object) {
  const folder = mkdtempSync(join(home, "adapter-"));
  const usual = {
    peft_type: "LORA",
    r: 4,
    lora_alpha: 8,
    lora_dropout: 0.1,
    target_modules: ["q_proj"],
    bias: "none",
    auto_mapping: { base_model_class: "LlamaForCausalLM" },
    base_model_name_or_path: "a/b",
    peft_version: "0.21.2",
    task_type: "CAUSAL_LM",
    inference_mode: true,
    init_lora_weights: true,
    revision: null,
    layers_pattern: null,
    alora_invocation_tokens: null,
    alpha_pattern: {},
    arrow_config: null,
    corda_config: null,
    eva_config: null,
    ensure_weight_tying: false,
    exclude_modules: null,
    fan_in_fan_out: false,
    kasa_config: null,
    loftq_config: {},
    layer_replication: null,
    layers_to_transform: null,
    lora_bias: false,
    lora_ga_config: null,
    use_dora: false,
    megatron_config: null,
    megatron_core: "megatron.core",
    modules_to_save: null,
    monteclora_config: null,
    qalora_group_size: 16,
    rank_pattern: {},
    target_parameters: null,
    trainable_token_indices: null,
    use_bdlora: null,
    use_qalora: false,
    use_rslora: false,
    velora_config: null,
  };
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...usual, ...fields }));
  writeFileSync(join(folder, "adapter_model.safetensors"), weights);
  return readPeft(folder, "--x").lora;
}

describe("an adapter in PEFT's form", () => {
  it.each([
    {},
    { init_lora_weights: false },
    { init_lora_weights: null },
    { init_lora_weights: "gaussian" },
    { init_lora_weights: "orthogonal" },
    { init_lora_weights: "eva", eva_config: { rho: 1 }, rank_pattern: { "layers.0.self_attn.q_proj": 4 } },
    { init_lora_weights: "mica" },
    // What PEFT leaves in one that it has converted.
    { init_lora_weights: true, corda_config: { corda_method: "kpm" }, lora_ga_config: { direction: "ArB2r" } },
    { alpha_pattern: { q_proj: 8 }, unsloth_fixed: true, layers_to_transform: [0] },
  ])("is read with %j, which leaves the base model as it was", (fields) => {
    expect(read(fields)).toEqual({ rank: 4, alpha: 8, targets: ["q_proj"] });
  });

  it.each(["pissa", "pissa_niter_16", "corda", "olora", "OLoRA", "lora_ga"])(
    "is refused when it began with %s, which changed the base model too, with PEFT's way to a plain one",
    (start) => {
      const words = `it began with init_lora_weights "${start}", which changed the base model too; save it as a plain LoRA with PEFT's save_pretrained(FOLDER, path_initial_model_for_weight_conversion=`;
      expect(() => read({ init_lora_weights: start })).toThrow(words);
    },
  );

  it.each([["loftq"], ["a-later-one"], [7]])("is refused when it began with %s, which PEFT cannot convert", (start) => {
    expect(() => read({ init_lora_weights: start, loftq_config: { loftq_bits: 4 } })).toThrow(
      /it began with init_lora_weights .* may have changed the base model too; merge it with PEFT's merge_and_unload/,
    );
  });

  it.each([
    { use_dora: true },
    { use_rslora: true },
    { alpha_pattern: { q_proj: 4 } },
    { rank_pattern: { q_proj: 8 } },
    { bias: "all" },
    { modules_to_save: ["lm_head"] },
    {
      layer_replication: [
        [0, 4],
        [2, 5],
      ],
    },
    { lora_bias: true },
    { trainable_token_indices: { embed_tokens: [1, 2] } },
    { target_parameters: ["mlp.experts.down_proj"] },
    { fan_in_fan_out: true },
    { use_qalora: true },
    { use_bdlora: { nblocks: 2 } },
    { arrow_config: { top_k: 3 } },
    { velora_config: { num_groups: 8 } },
    { kasa_config: { beta: 1e-4 } },
    { monteclora_config: { sample_scaler: 1 } },
    { megatron_config: { tensor_model_parallel_size: 2 } },
    // Of a PEFT that is still to come.
    { use_something_new: true },
    { something_new_config: { size: 2 } },
  ])("is refused by name with %j", (fields) => {
    const [name] = Object.keys(fields);
    expect(() => read(fields)).toThrow(`it uses ${name}, which hone's learner does not; merge it with PEFT's`);
  });

  it.each([
    { alora_invocation_tokens: [1, 2] },
    { alora_invocation_string: "<|role|>" },
    { invocation_string: "<|role|>" },
  ])("is refused with %j, which no merged weights can be", (fields) => {
    const [name] = Object.keys(fields);
    expect(() => read(fields)).toThrow(`it uses ${name}, which hone's learner does not; train a LoRA without it`);
  });

  it("is refused when it is none of LoRA's", () => {
    expect(() => read({ peft_type: "IA3" })).toThrow("describes no LoRA adapter");
  });
});
