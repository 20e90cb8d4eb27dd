// The weights of one model file and its adapters, shared by the contexts of all lanes; in memory while one of them
// holds them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "libllama.h"
#include "report.h"

namespace hone {

class Weights;

/** Releases one hold on the weights. */
struct ModelRelease {
  std::shared_ptr<Weights> weights;
  void operator()(llama_model*) const;
};
/** Holds the weights for its lifetime. */
using HeldModel = std::unique_ptr<llama_model, ModelRelease>;

struct AdapterRelease {
  std::shared_ptr<Weights> weights;
  std::string path;
  void operator()(llama_adapter_lora*) const;
};
/** Holds an adapter for its lifetime; null for none. The weights must be held longer. */
using HeldAdapter = std::unique_ptr<llama_adapter_lora, AdapterRelease>;

class Weights : public std::enable_shared_from_this<Weights> {
 public:
  /** `repacked`: see `loadModel`. */
  Weights(std::string file, bool useGpu, bool repacked)
      : file_(std::move(file)), useGpu_(useGpu), repacked_(repacked) {}
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /**
   * Loads the model for its first holder; the last one frees it. @throws std::runtime_error when it cannot be loaded
   */
  HeldModel acquire();
  /** Must be called while the model is held. @throws std::runtime_error when the adapter does not fit the model */
  HeldAdapter acquireAdapter(const std::string& path);
  /**
   * Checks everything about an adapter that needs no model: its file can be read, and is GGUF.
   * @throws std::runtime_error otherwise
   */
  void checkAdapter(const std::string& path) const;

  /** For the model, while it is held; else 0. */
  uint64_t bytes() const { return bytes_; }
  /** How the model was last loaded, and the current buffers. Never waits for a load. */
  LlamaReport report() const;

 private:
  /** Beginning of the message about an adapter that cannot be used. */
  std::string refusal(const std::string& path) const;

  friend ModelRelease;
  friend AdapterRelease;

  void release();
  void noteBuffers(const LlamaReport* loaded);
  void releaseAdapter(const std::string& path);

  template <typename T>
  struct Shared {
    T* object = nullptr;
    int holders = 0;
    std::map<std::string, BufferBytes> buffers;
  };

  const std::string file_;
  const bool useGpu_;
  const bool repacked_;
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;
  Shared<llama_model> model_;
  std::map<std::string, Shared<llama_adapter_lora>> adapters_;
  /** Guards the report only. */
  mutable std::mutex reportMutex_;
  LlamaReport report_;
};

}  // namespace hone
