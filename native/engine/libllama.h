// The functions of the libllama that node-llama-cpp has loaded into this process, found at run time: one addon serves
// its CPU, CUDA, Vulkan and Metal builds. Only public headers of llama.cpp and ggml are used.
#pragma once

#include <string>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "gguf.h"
#include "llama.h"

namespace hone {

#define HONE_LLAMA_FUNCTIONS(X)  \
  X(llama_version)               \
  X(llama_max_parallel_sequences) \
  X(llama_log_set)               \
  X(llama_model_default_params)  \
  X(llama_context_default_params) \
  X(llama_model_load_from_file)  \
  X(llama_model_free)            \
  X(llama_model_get_vocab)       \
  X(llama_model_n_ctx_train)     \
  X(llama_model_n_layer)         \
  X(llama_model_n_head)          \
  X(llama_model_n_head_kv)       \
  X(llama_model_n_embd)          \
  X(llama_model_n_params)        \
  X(llama_model_size)            \
  X(llama_model_ftype)           \
  X(llama_model_meta_val_str)    \
  X(llama_model_chat_template)   \
  X(llama_model_quantize)        \
  X(llama_model_quantize_default_params) \
  X(llama_model_is_recurrent)    \
  X(llama_model_is_hybrid)       \
  X(llama_model_has_encoder)     \
  X(llama_ftype_name)            \
  X(llama_init_from_model)       \
  X(llama_free)                  \
  X(llama_n_seq_max)             \
  X(llama_get_memory)            \
  X(llama_memory_clear)          \
  X(llama_memory_seq_rm)         \
  X(llama_memory_seq_cp)         \
  X(llama_decode)                \
  X(llama_synchronize)           \
  X(llama_perf_context)          \
  X(llama_get_logits)            \
  X(llama_attach_threadpool)     \
  X(llama_set_n_threads)         \
  X(llama_adapter_lora_init)     \
  X(llama_adapter_lora_free)     \
  X(llama_set_adapters_lora)     \
  X(llama_vocab_n_tokens)        \
  X(llama_vocab_get_text)        \
  X(llama_vocab_get_attr)        \
  X(llama_vocab_is_eog)          \
  X(llama_vocab_bos)             \
  X(llama_vocab_eos)             \
  X(llama_vocab_eot)             \
  X(llama_vocab_pad)             \
  X(llama_vocab_get_add_bos)     \
  X(llama_tokenize)              \
  X(llama_token_to_piece)        \
  X(llama_sampler_init_grammar)  \
  X(llama_sampler_init_grammar_lazy_patterns) \
  X(llama_sampler_accept)        \
  X(llama_sampler_apply)         \
  X(llama_sampler_free)          \
  X(llama_sampler_init)          \
  X(llama_sampler_chain_default_params) \
  X(llama_sampler_chain_init)    \
  X(llama_sampler_chain_add)     \
  X(llama_set_sampler)           \
  X(llama_get_sampled_probs_ith) \
  X(llama_get_sampled_probs_count_ith) \
  X(ggml_backend_dev_count)      \
  X(ggml_backend_dev_get)        \
  X(ggml_backend_dev_by_type)    \
  X(ggml_backend_dev_type)       \
  X(ggml_backend_dev_name)       \
  X(ggml_backend_dev_description) \
  X(ggml_backend_dev_memory)     \
  X(ggml_backend_dev_backend_reg) \
  X(ggml_backend_reg_name)       \
  X(ggml_backend_reg_get_proc_address) \
  X(ggml_threadpool_params_init) \
  X(ggml_backend_dev_supports_op) \
  X(ggml_backend_tensor_set)     \
  X(ggml_backend_tensor_get)     \
  X(ggml_init)                   \
  X(ggml_free)                   \
  X(ggml_tensor_overhead)        \
  X(ggml_op_desc)                \
  X(ggml_get_first_tensor)       \
  X(ggml_get_next_tensor)        \
  X(ggml_new_tensor_2d)          \
  X(ggml_set_input)              \
  X(ggml_view_2d)                \
  X(ggml_reshape_2d)             \
  X(ggml_reshape_3d)             \
  X(ggml_cont)                   \
  X(ggml_pad)                    \
  X(ggml_concat)                 \
  X(ggml_get_rows)               \
  X(ggml_arange)                 \
  X(ggml_argmax)                 \
  X(ggml_cumsum)                 \
  X(ggml_sum_rows)               \
  X(ggml_soft_max)               \
  X(ggml_log)                    \
  X(ggml_step)                   \
  X(ggml_relu)                   \
  X(ggml_mul)                    \
  X(ggml_sub)                    \
  X(ggml_scale)                  \
  X(ggml_scale_bias) \
  X(ggml_backend_dev_buffer_type) \
  X(ggml_backend_dev_init) \
  X(ggml_backend_free) \
  X(ggml_backend_supports_op) \
  X(ggml_backend_graph_compute_async) \
  X(ggml_backend_synchronize) \
  X(ggml_backend_tensor_set_async) \
  X(ggml_backend_tensor_get_async) \
  X(ggml_backend_tensor_alloc) \
  X(ggml_backend_buft_alloc_buffer) \
  X(ggml_backend_buft_name) \
  X(ggml_backend_buffer_free) \
  X(ggml_backend_buffer_clear) \
  X(ggml_backend_buffer_get_size) \
  X(ggml_backend_buffer_set_usage) \
  X(ggml_backend_alloc_ctx_tensors_from_buft) \
  X(ggml_gallocr_new) \
  X(ggml_gallocr_free) \
  X(ggml_gallocr_reserve) \
  X(ggml_gallocr_reserve_n_size) \
  X(ggml_gallocr_alloc_graph) \
  X(ggml_gallocr_get_buffer_size) \
  X(gguf_init_from_file) \
  X(gguf_free) \
  X(gguf_find_key) \
  X(gguf_get_kv_type) \
  X(gguf_get_val_u32) \
  X(gguf_get_val_f32) \
  X(gguf_get_val_str) \
  X(gguf_find_tensor) \
  X(gguf_get_n_tensors) \
  X(gguf_get_tensor_name) \
  X(gguf_get_tensor_offset) \
  X(gguf_get_tensor_size) \
  X(gguf_get_data_offset) \
  X(ggml_get_tensor) \
  X(ggml_nbytes) \
  X(ggml_type_name) \
  X(ggml_fp16_to_fp32_row) \
  X(ggml_fp32_to_fp16_row) \
  X(ggml_fp32_to_bf16_row) \
  X(ggml_bf16_to_fp32_row) \
  X(ggml_new_tensor_1d) \
  X(ggml_new_tensor_3d) \
  X(ggml_new_tensor_4d) \
  X(ggml_new_graph_custom) \
  X(ggml_graph_overhead_custom) \
  X(ggml_graph_n_nodes) \
  X(ggml_graph_node) \
  X(ggml_build_forward_expand) \
  X(ggml_set_output) \
  X(ggml_mul_mat) \
  X(ggml_add) \
  X(ggml_repeat_4d) \
  X(ggml_rms_norm) \
  X(ggml_rope_ext) \
  X(ggml_set_rows) \
  X(ggml_cast) \
  X(ggml_cpy) \
  X(ggml_reshape_4d) \
  X(ggml_view_1d) \
  X(ggml_view_3d) \
  X(ggml_view_4d) \
  X(ggml_flash_attn_ext) \
  X(ggml_prec_set_acc) \
  X(ggml_swiglu) \
  X(ggml_swiglu_split)

struct LibLlama {
#define HONE_MEMBER(name) decltype(&::name) name = nullptr;
  HONE_LLAMA_FUNCTIONS(HONE_MEMBER)
#undef HONE_MEMBER
};

/** Null until `bindLibLlama` has succeeded. */
const LibLlama* libLlama();

/**
 * Finds the loaded libllama, checks that it is the version this addon was compiled against, and keeps it mapped for
 * the life of the process. May be called again.
 * @throws std::runtime_error with a message that says what to do
 */
void bindLibLlama();

/** The version whose headers this addon was compiled against. */
std::string compiledLlamaVersion();

/** Clears llama.cpp's errors on this thread, so that a later failure has its own reason. */
void forgetLlamaErrors();

/** Whether its errors since then report a lack of memory. */
bool llamaLacksMemory();

/**
 * Throws `what` with its errors since then as the reason: OutOfMemory for a lack of memory, else std::runtime_error.
 */
[[noreturn]] void throwLlamaError(const std::string& what);

enum class LogLevel { warning, error };
/** Receives llama.cpp's warnings and errors, on any thread; lower levels are dropped. Null drops all. */
void setLlamaLogSink(void (*sink)(LogLevel level, const std::string& line));

}  // namespace hone
