// The engines of this process. One per model file and name, shared by all threads, freed with its last user.
#pragma once

#include <memory>
#include <string>

#include "lanes.h"
#include "llama_decoder.h"
#include "model.h"

namespace hone {

struct EngineSettings {
  std::string model;
  /** Engines of one model with different names share its weights and nothing else. */
  std::string name;
  /** Contexts beside each other; at most as many as sequences. */
  int lanes = 1;
  /** Of all lanes together. */
  LlamaSettings llama;
  /** Of each lane; its slots, outputs and threads follow from its share of `llama`. */
  SchedulerSettings scheduler;
};

/** Thread-safe. Owns the weights, their contexts and the decode threads. */
class Engine {
 public:
  Engine(const EngineSettings& settings, std::shared_ptr<Weights> weights);

  uint64_t weightBytes() const { return weights_->bytes(); }
  uint64_t kvBytes() const;
  /** How weights and contexts were made, and the buffers of all that is there now. */
  LlamaReport report() const;
  bool fullKv() const { return decoders_.front()->fullKv(); }
  uint64_t kvBytesPerSequence() const { return decoders_.front()->kvBytesPerSequence(); }

  const EngineSettings settings;
  const Vocabulary vocabulary;

 private:
  const std::shared_ptr<Weights> weights_;
  /** The lanes own them. */
  std::vector<const LlamaDecoder*> decoders_;

 public:
  Lanes lanes;
  const ModelInfo info;

 private:
  std::vector<Lane> loadLanes();
};

/**
 * The engine of a model file and a name: the one there is, or a new one.
 * @throws std::runtime_error when it exists with other settings, or cannot be loaded
 */
std::shared_ptr<Engine> acquireEngine(const EngineSettings& settings);

/** Gives one use back; the last one frees the engine before this returns. */
void releaseEngine(std::shared_ptr<Engine> engine);

/** Ends all decode threads. For the end of the process. */
void stopEngines();

}  // namespace hone
