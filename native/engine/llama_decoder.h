// The decoder that is llama.cpp: one context on weights that it may share, at most one adapter.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "decoder.h"
#include "libllama.h"
#include "model.h"
#include "weights.h"

namespace hone {

struct LlamaSettings {
  bool useGpu = false;
  int threads = 1;
  int sequences = 1;
  int contextPerSequence = 512;
  int batch = 2048;
  int ubatch = 512;
  /** Rows of logits of one decode call at most. */
  int outputs = 64;
};

class LlamaDecoder final : public Decoder {
 public:
  /** Loads the weights, if nobody has, and allocates the KV. */
  LlamaDecoder(std::shared_ptr<Weights> weights, const LlamaSettings& settings);
  ~LlamaDecoder() override;

  const ModelInfo& info() const { return info_; }
  /** Bytes; may be asked for on any thread. */
  uint64_t kvBytes() const { return kvBytes_; }
  uint64_t kvBytesPerSequence() const;

  int vocabularySize() const override { return vocabularySize_; }
  bool canTrim() const override { return !info_.recurrent; }
  void decode(const Batch& batch) override;
  const float* logits(int row) const override;
  void copy(int from, int to) override;
  void trim(int slot, int length) override;
  void clear() override;
  void setAdapter(const std::string& path) override;
  void sleep(bool weights) override;
  void wake() override;
  void setThreads(int threads) override;
  void abort() override { aborted_ = true; }

 private:
  bool fullKv() const;
  void createContext();
  void freeContext();
  void freeWeights();
  void applyAdapter();

  const LibLlama& lib_;
  const std::shared_ptr<Weights> weights_;
  const LlamaSettings settings_;
  /** Tokens of a slot's buffer: the context rounded up as llama.cpp wants it. */
  const int cellsPerSlot_;
  ModelInfo info_;
  int vocabularySize_ = 0;
  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_memory_t memory_ = nullptr;
  llama_adapter_lora* adapter_ = nullptr;
  std::string adapterPath_;
  llama_batch batch_;
  /** In use, at most `settings_.threads`. */
  int threads_;
  ggml_threadpool* pool_ = nullptr;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> kvBytes_{0};
};

}  // namespace hone
