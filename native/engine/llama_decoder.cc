#include "llama_decoder.h"

#include <algorithm>
#include <stdexcept>

#include "denormals.h"
#include "ggml-cpu.h"

namespace hone {
namespace {

/** llama.cpp allocates KV in steps of this many tokens. */
constexpr int kCellStep = 256;

/** A function of the CPU backend, which is a library of its own; null when this build has it not. */
template <typename F>
F cpuFunction(const char* name) {
  const LibLlama& lib = *libLlama();
  ggml_backend_dev_t cpu = lib.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!cpu) return nullptr;
  return reinterpret_cast<F>(lib.ggml_backend_reg_get_proc_address(lib.ggml_backend_dev_backend_reg(cpu), name));
}

}  // namespace

LlamaDecoder::LlamaDecoder(std::shared_ptr<Weights> weights, const LlamaSettings& settings)
    : lib_(*libLlama()),
      weights_(std::move(weights)),
      settings_(settings),
      cellsPerSlot_((settings.contextPerSequence + kCellStep - 1) / kCellStep * kCellStep),
      batch_(lib_.llama_batch_init(std::max(settings.batch, 2 * settings.sequences), 0, 1)),
      threads_(settings.threads) {
  // llama.cpp would start its threads anew for every batch.
  if (auto create = cpuFunction<decltype(&ggml_threadpool_new)>("ggml_threadpool_new")) {
    const FlushDenormals flushed;
    ggml_threadpool_params params;
    lib_.ggml_threadpool_params_init(&params, settings.threads);
    pool_ = create(&params);
  }
  try {
    model_ = weights_->acquire();
    info_ = describe(model_);
    vocabularySize_ = lib_.llama_vocab_n_tokens(lib_.llama_model_get_vocab(model_));
    createContext();
  } catch (...) {
    sleep(true);
    throw;
  }
}

LlamaDecoder::~LlamaDecoder() {
  sleep(true);
  lib_.llama_batch_free(batch_);
  if (pool_) cpuFunction<decltype(&ggml_threadpool_free)>("ggml_threadpool_free")(pool_);
}

// Who runs f32 weights on a CPU wants exactness: KV in 16 bits would put log-probabilities off by 1e-3.
bool LlamaDecoder::fullKv() const { return info_.full && !settings_.useGpu; }

uint64_t LlamaDecoder::kvBytesPerSequence() const {
  return (fullKv() ? 4 : 2) * info_.kvNumbersPerToken * static_cast<uint64_t>(cellsPerSlot_);
}

void LlamaDecoder::createContext() {
  llama_context_params params = lib_.llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(cellsPerSlot_ * settings_.sequences);
  params.n_seq_max = static_cast<uint32_t>(settings_.sequences);
  params.n_batch = static_cast<uint32_t>(std::max(settings_.batch, 2 * settings_.sequences));
  params.n_ubatch = static_cast<uint32_t>(settings_.ubatch);
  params.n_outputs_max = static_cast<uint32_t>(settings_.outputs);
  params.n_threads = threads_;
  params.n_threads_batch = threads_;
  params.kv_unified = false;
  params.no_perf = true;
  params.abort_callback = [](void* aborted) { return static_cast<std::atomic<bool>*>(aborted)->load(); };
  params.abort_callback_data = &aborted_;
  // On a CPU it sums in 16 bits: logprobs are off by 3e-3 in the mean, without it by 1e-5, and it is no faster.
  if (!settings_.useGpu) params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = fullKv() ? GGML_TYPE_F32 : GGML_TYPE_F16;
  takeLlamaComplaints();
  context_ = lib_.llama_init_from_model(model_, params);
  if (!context_) {
    throw std::runtime_error("no room for the KV of " + std::to_string(settings_.sequences) + " sequences of " +
                             std::to_string(settings_.contextPerSequence) + " tokens (about " +
                             std::to_string(kvBytesPerSequence() * settings_.sequences >> 20) +
                             " MiB): " + llamaReason());
  }
  memory_ = lib_.llama_get_memory(context_);
  kvBytes_ = kvBytesPerSequence() * static_cast<uint64_t>(settings_.sequences);
  if (pool_) lib_.llama_attach_threadpool(context_, pool_, pool_);
  applyAdapter();
}

void LlamaDecoder::freeContext() {
  if (context_) lib_.llama_free(context_);
  context_ = nullptr;
  memory_ = nullptr;
  kvBytes_ = 0;
}

void LlamaDecoder::freeWeights() {
  if (adapter_) weights_->releaseAdapter(adapterPath_);
  adapter_ = nullptr;
  if (model_) weights_->release();
  model_ = nullptr;
}

void LlamaDecoder::sleep(bool weights) {
  freeContext();
  if (weights) freeWeights();
}

void LlamaDecoder::wake() {
  if (!model_) model_ = weights_->acquire();
  if (!adapter_ && !adapterPath_.empty()) adapter_ = weights_->acquireAdapter(adapterPath_);
  if (!context_) createContext();
}

void LlamaDecoder::applyAdapter() {
  float scale = 1;
  lib_.llama_set_adapters_lora(context_, adapter_ ? &adapter_ : nullptr, adapter_ ? 1 : 0, adapter_ ? &scale : nullptr);
}

void LlamaDecoder::setAdapter(const std::string& path) {
  llama_adapter_lora* const next = path.empty() ? nullptr : weights_->acquireAdapter(path);
  const std::string old = adapter_ ? adapterPath_ : "";
  adapter_ = next;
  adapterPath_ = path;
  applyAdapter();
  if (!old.empty()) weights_->releaseAdapter(old);
}

void LlamaDecoder::setThreads(int threads) {
  threads_ = threads;
  lib_.llama_set_n_threads(context_, threads_, threads_);
}

void LlamaDecoder::decode(const Batch& batch) {
  batch_.n_tokens = batch.size();
  std::copy(batch.tokens.begin(), batch.tokens.end(), batch_.token);
  std::copy(batch.positions.begin(), batch.positions.end(), batch_.pos);
  std::copy(batch.wanted.begin(), batch.wanted.end(), batch_.logits);
  for (int i = 0; i < batch.size(); i++) {
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = batch.slots[i];
  }
  takeLlamaComplaints();
  const FlushDenormals flushed;
  const int status = lib_.llama_decode(context_, batch_);
  if (status != 0) {
    throw std::runtime_error("llama.cpp failed to evaluate a batch of " + std::to_string(batch.size()) +
                             " tokens (code " + std::to_string(status) + "): " + llamaReason());
  }
  lib_.llama_synchronize(context_);
  // The first look at logits puts their rows in order; after that, several threads may read them.
  const auto wanted = std::find(batch.wanted.begin(), batch.wanted.end(), 1);
  if (wanted != batch.wanted.end()) logits(static_cast<int>(wanted - batch.wanted.begin()));
}

const float* LlamaDecoder::logits(int row) const { return lib_.llama_get_logits_ith(context_, row); }

void LlamaDecoder::copy(int from, int to) { lib_.llama_memory_seq_cp(memory_, from, to, -1, -1); }

void LlamaDecoder::trim(int slot, int length) {
  if (!lib_.llama_memory_seq_rm(memory_, slot, length, -1)) {
    throw std::runtime_error("llama.cpp cannot take back tokens of this model's memory");
  }
}

void LlamaDecoder::clear() { lib_.llama_memory_clear(memory_, false); }

}  // namespace hone
