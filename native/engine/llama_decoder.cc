#include "llama_decoder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "denormals.h"
#include "warm_up.h"

namespace hone {
namespace {

/** llama.cpp allocates KV in steps of this many tokens. */
constexpr int kCellStep = 256;

int cellsOf(int tokens) { return (tokens + kCellStep - 1) / kCellStep * kCellStep; }

}  // namespace

int64_t totalCells(const LlamaSettings& settings) {
  const int64_t padding = settings.pooled ? cellsOf(settings.ubatch) : 0;
  return static_cast<int64_t>(cellsOf(settings.contextPerSequence)) * settings.sequences + padding;
}

LlamaDecoder::LlamaDecoder(std::shared_ptr<Weights> weights, const LlamaSettings& settings)
    : lib_(*libLlama()),
      weights_(std::move(weights)),
      settings_(settings),
      cellsPerSlot_(cellsOf(settings.contextPerSequence)),
      threads_(settings.threads),
      sequences_(settings.sequences),
      pool_(newPool(settings.threads)),
      model_(weights_->acquire()),
      info_(describe(model_.get())),
      vocabularySize_(lib_.llama_vocab_n_tokens(lib_.llama_model_get_vocab(model_.get()))) {
  if (settings.drawOnDevice) prepareDrawing();
  createContext(settings.sequences);
  if (device_ && !settings.drawUntried) tryDrawing();
  warmUp();
}

void LlamaDecoder::ContextFree::operator()(llama_context* context) const { libLlama()->llama_free(context); }

// f32 weights on a CPU are used for exact log-probabilities; 16-bit KV would change them by 1e-3.
bool LlamaDecoder::fullKv() const { return info_.full && !settings_.useGpu; }

uint64_t LlamaDecoder::kvBytesPerSequence() const {
  if (info_.recurrent) return kvBytesPerSequence_;
  return (fullKv() ? 4 : 2) * info_.kvNumbersPerToken * static_cast<uint64_t>(cellsPerSlot_);
}

void LlamaDecoder::createContext(int sequences) {
  llama_context_params params = lib_.llama_context_default_params();
  LlamaSettings settings = settings_;
  settings.sequences = sequences;
  settings.pooled = pooled();
  const auto cells = static_cast<uint64_t>(totalCells(settings));
  uint64_t kvBytes = info_.recurrent ? 0 : kvBytesPerSequence() / static_cast<uint64_t>(cellsPerSlot_) * cells;
  params.n_ctx = static_cast<uint32_t>(cells);
  params.n_seq_max = static_cast<uint32_t>(sequences * (pooled() ? 2 : 1));
  params.n_batch = static_cast<uint32_t>(std::max(settings_.batch, 2 * sequences));
  params.n_ubatch = static_cast<uint32_t>(settings_.ubatch);
  // llama.cpp ends the process where a context has fewer rows than sequence ids: a pool has two of these for each slot.
  const auto rows = static_cast<uint32_t>(settings_.outputs - settings_.sequences + sequences);
  params.n_outputs_max = std::max(rows, params.n_seq_max);
  params.n_threads = threads_;
  params.n_threads_batch = threads_;
  params.kv_unified = pooled();
  params.no_perf = true;
  params.abort_callback = [](void* aborted) { return static_cast<std::atomic<bool>*>(aborted)->load(); };
  params.abort_callback_data = &aborted_;
  params.flash_attn_type = mayUseFlashAttention() ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = fullKv() ? GGML_TYPE_F32 : GGML_TYPE_F16;
  if (device_) {
    const auto& samplers = device_->renew(static_cast<int>(params.n_seq_max));
    params.samplers = const_cast<llama_sampler_seq_config*>(samplers.data());
    params.n_samplers = samplers.size();
  }
  LlamaReport made;
  const Listening listening(made);
  if (!mayUseFlashAttention()) made.flashAttention = 0;
  forgetLlamaErrors();
  decltype(context_) context(lib_.llama_init_from_model(model_.get(), params));
  if (!context) {
    const std::string wanted = std::to_string(sequences) + " sequences of " +
                               std::to_string(settings_.contextPerSequence) + " tokens";
    const std::string size = kvBytes > 0 ? " (about " + std::to_string(kvBytes >> 20) + " MiB)" : "";
    throwLlamaError(llamaLacksMemory() ? "no room for the KV of " + wanted + size
                                       : "llama.cpp cannot be set up for " + wanted);
  }
  if (pool_) lib_.llama_attach_threadpool(context.get(), pool_.get(), pool_.get());
  apply(context.get());
  context_ = std::move(context);
  drawing_ = device_ != nullptr;
  sequences_ = sequences;
  paddingIds_.resize(pooled() ? static_cast<size_t>(sequences) : 0);
  std::iota(paddingIds_.begin(), paddingIds_.end(), sequences);
  if (info_.recurrent) {
    for (const auto& [place, bytes] : made.buffers) kvBytes += bytes.kv;
    kvBytesPerSequence_ = kvBytes / static_cast<uint64_t>(sequences);
  }
  std::lock_guard<std::mutex> lock(reportMutex_);
  report_ = std::move(made);
  kvBytes_ = kvBytes;
}

/** Sets the adapter in use on a context. */
void LlamaDecoder::apply(llama_context* context) const {
  float scale = 1;
  llama_adapter_lora* adapter = adapter_.held.get();
  if (lib_.llama_set_adapters_lora(context, &adapter, adapter ? 1 : 0, &scale) != 0) {
    throwLlamaError("llama.cpp refused the adapter " + adapter_.path);
  }
}

void LlamaDecoder::loadAdapter(const std::string& path) {
  dropAdapter();
  std::string kept = path;
  if (!path.empty()) {
    if (model_) beside_.held = weights_->acquireAdapter(path);
    else weights_->checkAdapter(path);
  }
  beside_.path = std::move(kept);
}

void LlamaDecoder::swapAdapter() {
  std::swap(adapter_, beside_);
  if (!context_) return;  // the next one is created with it
  try {
    forgetLlamaErrors();
    apply(context_.get());
  } catch (...) {
    std::swap(adapter_, beside_);
    throw;
  }
}

void LlamaDecoder::dropAdapter() noexcept {
  beside_.held.reset();
  beside_.path.clear();
}

void LlamaDecoder::sleep(bool weights) {
  context_.reset();
  kvBytes_ = 0;
  {
    std::lock_guard<std::mutex> lock(reportMutex_);
    report_.buffers.clear();
  }
  if (!weights) return;
  adapter_.held.reset();
  model_.reset();
}

void LlamaDecoder::wake(int slots) {
  const bool withoutWeights = !model_;
  try {
    if (withoutWeights) model_ = weights_->acquire();
    if (!adapter_.path.empty() && !adapter_.held) adapter_.held = weights_->acquireAdapter(adapter_.path);
    if (!context_) {
      createContext(slots);
      warmUp();
    }
  } catch (...) {
    sleep(withoutWeights);
    throw;
  }
}

void LlamaDecoder::setThreads(int threads) {
  threads_ = threads;
  lib_.llama_set_n_threads(context_.get(), threads_, threads_);
}

void LlamaDecoder::decode(const Batch& batch) {
  const size_t size = batch.tokens.size();
  sequenceCounts_.assign(size, 1);
  sequenceIds_.resize(size);
  // llama.cpp only reads a batch, but its struct is not const.
  for (size_t i = 0; i < size; i++) {
    const int32_t& slot = batch.slots[i];
    sequenceIds_[i] = slot < 0 ? &paddingIds_[kPadding - slot] : const_cast<int32_t*>(&slot);
  }
  llama_batch view{};
  view.n_tokens = batch.size();
  view.token = const_cast<Token*>(batch.tokens.data());
  view.pos = const_cast<int32_t*>(batch.positions.data());
  view.n_seq_id = sequenceCounts_.data();
  view.seq_id = sequenceIds_.data();
  view.logits = const_cast<int8_t*>(batch.wanted.data());
  if (aborted_) throw std::runtime_error("llama.cpp was told to stop");
  LlamaReport heard;
  const Listening listening(heard);
  forgetLlamaErrors();
  const auto wanted = static_cast<uint64_t>(std::count(batch.wanted.begin(), batch.wanted.end(), 1));
  if (wanted > 0) drawOnDevice(!batch.draws.empty());
  if (drawing_) device_->expect(batch, sequenceIds_);
  const FlushDenormals flushed;
  const int reused = lib_.llama_perf_context(context_.get()).n_reused;
  const int status = lib_.llama_decode(context_.get(), view);
  if (status != 0) {
    throwLlamaError("llama.cpp failed to evaluate a batch of " + std::to_string(batch.size()) + " tokens (code " +
                    std::to_string(status) + ")");
  }
  // Where rows are read, reading waits.
  if (wanted == 0) lib_.llama_synchronize(context_.get());
  reusedGraphs_ = lib_.llama_perf_context(context_.get()).n_reused - reused;
  const int lowest = *std::min_element(batch.slots.begin(), batch.slots.end());
  for (int slot = kPadding; slot >= lowest; slot--) trim(paddingIds_[kPadding - slot], 0);
  if (!heard.buffers.empty()) noteCompute(heard);
  copiedBytes_ = 0;
  if (wanted == 0) return;
  if (drawing_) return takeDrawn();
  copiedBytes_ = wanted * static_cast<uint64_t>(vocabularySize_) * sizeof(float);
  // Waits for the device, and puts the rows into the batch's order: once for all rows, which several threads may then read.
  logits_ = lib_.llama_get_logits(context_.get());
  if (!logits_) throwLlamaError("llama.cpp has no logits of a batch");
  logitRows_.assign(size, -1);
  for (size_t i = 0, row = 0; i < size; i++) {
    if (batch.wanted[i]) logitRows_[i] = static_cast<int>(row++);
  }
}

/** llama.cpp has allocated its compute buffers again: the first batch after an adapter change needs others. */
void LlamaDecoder::noteCompute(const LlamaReport& heard) {
  std::lock_guard<std::mutex> lock(reportMutex_);
  for (auto& [place, bytes] : report_.buffers) bytes.compute = 0;
  addBuffers(report_.buffers, heard.buffers);
}

LlamaReport LlamaDecoder::report() const {
  std::lock_guard<std::mutex> lock(reportMutex_);
  return report_;
}

namespace {

std::atomic<int> warming{0};

struct Warming {
  Warming() { warming++; }
  ~Warming() { warming--; }
};

}  // namespace

int warmingDecoders() { return warming; }

/** A CPU compiles nothing. */
void LlamaDecoder::warmUp() {
  if (!settings_.useGpu) return;
  bool& warm = warm_[adapter_.held ? 1 : 0];
  const Warming now;
  const WarmUpShape once{1, 1, 1, 1};
  const int prompt = std::min(settings_.batch, settings_.ubatch);
  const int outputs = settings_.outputs - settings_.sequences + sequences_;
  // Also where nothing is left to compile: llama.cpp allocates its compute buffers in the first batch after an adapter
  // change, which should not be part of a turn.
  evaluateShapes(*this, warm ? once : WarmUpShape{sequences_, settings_.contextPerSequence, prompt, outputs});
  warm = true;
}

const float* LlamaDecoder::logits(int row) const {
  return logits_ + static_cast<size_t>(logitRows_[row]) * static_cast<size_t>(vocabularySize_);
}

/** In a pool cells are not copied: they get a second owner, and the first keeps them too. */
void LlamaDecoder::copy(int from, int to) {
  if (pooled()) trim(to, 0);
  lib_.llama_memory_seq_cp(memory(), from, to, -1, -1);
}

void LlamaDecoder::trim(int slot, int length) {
  if (!lib_.llama_memory_seq_rm(memory(), slot, length, -1)) {
    throw std::runtime_error("llama.cpp cannot take back tokens of this model's memory");
  }
}

void LlamaDecoder::clear() { lib_.llama_memory_clear(memory(), false); }

}  // namespace hone
