// The decoder for llama.cpp: one context on weights that it may share, with at most one adapter.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu_backend.h"
#include "decoder.h"
#include "device_sampler.h"
#include "libllama.h"
#include "model.h"
#include "model_decoder.h"
#include "report.h"
#include "weights.h"

namespace hone {

struct LlamaSettings {
  bool useGpu = false;
  int threads = 1;
  int sequences = 1;
  int contextPerSequence = 512;
  int batch = 2048;
  int ubatch = 512;
  /** Maximum number of rows of logits of one decode call. */
  int outputs = 64;
  /** Attention without llama.cpp's flash attention, which on a CPU sums in 16 bits. */
  bool exact = false;
  /** One pool of KV cells for all slots, instead of a buffer for each: see SchedulerSettings::pooled. */
  bool pooled = false;
  /** Tokens are drawn where the logits are, if that works: see Decoder::samples. */
  bool drawOnDevice = false;
  /** What the device draws is not compared with what the host would: on a card that computes nothing. */
  bool drawUntried = false;
};

/** Decoders of this process that are making a GPU compile its kernels. */
int warmingDecoders();

/**
 * Tokens that the KV of all sequences has room for: llama.cpp rounds up each sequence's size. A pool also has room for
 * padding.
 */
int64_t totalCells(const LlamaSettings& settings);

class LlamaDecoder final : public ModelDecoder {
 public:
  /** Loads the weights, unless they are loaded, and allocates the KV. */
  LlamaDecoder(std::shared_ptr<Weights> weights, const LlamaSettings& settings);

  const ModelInfo& info() const override { return info_; }
  uint64_t kvBytes() const override { return kvBytes_; }
  bool fullKv() const override;
  /** Flash attention has K and V in 16 bits, whatever the KV's type. */
  bool mayUseFlashAttention() const { return !settings_.exact && !fullKv(); }
  /** According to the settings, but never for recurrent models, whose state has no cells. */
  bool pooled() const override { return settings_.pooled && !info_.recurrent; }
  uint64_t kvBytesPerSequence() const override;
  LlamaReport report() const override;
  const std::string& whyHost() const override { return whyHost_; }

  int vocabularySize() const override { return vocabularySize_; }
  bool canTrim() const override { return !info_.recurrent; }
  void decode(const Batch& batch) override;
  int reusedGraphs() const override { return reusedGraphs_; }
  const float* logits(int row) const override;
  bool samples() const override { return device_ != nullptr; }
  Drawn sampled(int row) const override { return device_->drawn(row); }
  uint64_t copiedBytes() const override { return copiedBytes_; }
  void copy(int from, int to) override;
  void trim(int slot, int length) override;
  void clear() override;
  void loadAdapter(const std::string& path) override;
  void swapAdapter() override;
  void dropAdapter() noexcept override;
  void sleep(bool weights) override;
  void wake(int slots) override;
  void warmUp() override;
  void setThreads(int threads) override;
  void abort() override { aborted_ = true; }

 private:
  struct Adapter {
    HeldAdapter held;
    /** "" for none. Kept while the decoder sleeps without weights, to load the adapter again. */
    std::string path;
  };
  struct ContextFree {
    void operator()(llama_context* context) const;
  };

  void createContext(int sequences);
  void prepareDrawing();
  void tryDrawing();
  void drawOnDevice(bool device);
  void takeDrawn();
  void apply(llama_context* context) const;
  void noteCompute(const LlamaReport& heard);
  llama_memory_t memory() const { return lib_.llama_get_memory(context_.get()); }

  const LibLlama& lib_;
  const std::shared_ptr<Weights> weights_;
  const LlamaSettings settings_;
  /** Tokens of a slot's buffer: the context, rounded up as llama.cpp requires. */
  const int cellsPerSlot_;
  /** In use, at most `settings_.threads`. */
  int threads_;
  /** Of the context, at most `settings_.sequences`. */
  int sequences_;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> kvBytes_{0};
  /** Where layers differ: as llama.cpp has allocated it. */
  std::atomic<uint64_t> kvBytesPerSequence_{0};
  /** Whether the device has compiled its kernels, without and with an adapter. */
  bool warm_[2] = {false, false};
  mutable std::mutex reportMutex_;
  LlamaReport report_;
  // Arrays that llama.cpp needs with every batch.
  std::vector<int32_t> sequenceCounts_;
  std::vector<int32_t*> sequenceIds_;
  /** llama.cpp's sequence ids of padding: those after the ids of the slots. */
  std::vector<int32_t> paddingIds_;
  // Of the last batch.
  /** llama.cpp's, [rows, vocabulary]; and the row of each token, -1 for none. */
  const float* logits_ = nullptr;
  std::vector<int> logitRows_;
  int reusedGraphs_ = 0;
  uint64_t copiedBytes_ = 0;
  std::string whyHost_;

  // Objects of llama.cpp. They are freed in reverse order, also when the constructor throws.
  HeldPool pool_;
  HeldModel model_;
  const ModelInfo info_;
  const int vocabularySize_;
  Adapter adapter_;
  /** The second adapter, between `loadAdapter` and `dropAdapter`. */
  Adapter beside_;
  /** Null where the host samples. */
  std::unique_ptr<DeviceSampler> device_;
  /** The context has `device_`'s samplers, and then no logits. */
  bool drawing_ = false;
  /** Null while it sleeps. */
  std::unique_ptr<llama_context, ContextFree> context_;
};

}  // namespace hone
