// The weights of one model file and the adapters on it, shared by the contexts of all lanes; in memory while one of
// them holds them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "libllama.h"

namespace hone {

class Weights {
 public:
  Weights(std::string file, bool useGpu) : file_(std::move(file)), useGpu_(useGpu) {}
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /** Loaded by the first that wants it. @throws std::runtime_error when it cannot be loaded */
  llama_model* acquire();
  /** The last that gives it back frees it. No adapter on it may be held then. */
  void release();

  /** To be called while the model is held. @throws std::runtime_error when it does not fit the model */
  llama_adapter_lora* acquireAdapter(const std::string& path);
  void releaseAdapter(const std::string& path);

  /** Of the model, while somebody holds it; else 0. */
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename T>
  struct Held {
    T* object = nullptr;
    int holders = 0;
  };

  const std::string file_;
  const bool useGpu_;
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;
  Held<llama_model> model_;
  std::map<std::string, Held<llama_adapter_lora>> adapters_;
};

}  // namespace hone
