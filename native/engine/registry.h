// The engines of this process. One per model file, shared by all threads, freed with its last user.
#pragma once

#include <memory>
#include <string>

#include "llama_decoder.h"
#include "model.h"
#include "scheduler.h"

namespace hone {

struct EngineSettings {
  LlamaSettings llama;
  SchedulerSettings scheduler;
};

/** Thread-safe. Owns the model, its context and the decode thread. */
class Engine {
 public:
  explicit Engine(const EngineSettings& settings);

  const EngineSettings settings;
  const Vocabulary vocabulary;

 private:
  std::unique_ptr<LlamaDecoder> loading_;

 public:
  const LlamaDecoder& decoder;
  const ModelInfo info;
  Scheduler scheduler;
};

/**
 * The engine of a model file: the one there is, or a new one.
 * @throws std::runtime_error when it exists with other settings, or cannot be loaded
 */
std::shared_ptr<Engine> acquireEngine(const EngineSettings& settings);

/** Gives one use back; the last one frees the engine before this returns. */
void releaseEngine(std::shared_ptr<Engine> engine);

/** Ends all decode threads. For the end of the process. */
void stopEngines();

}  // namespace hone
