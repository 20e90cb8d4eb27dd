#include "registry.h"

#include <map>
#include <mutex>
#include <stdexcept>

namespace hone {
namespace {

/**
 * Never destroyed: engines end by `stopEngines`, not in the unordered end of static objects. Loading and freeing hold
 * the lock, so that a model is never loaded while the same memory is still being freed.
 */
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Engine>> engines;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

std::string differing(const LlamaSettings& have, const LlamaSettings& asked) {
  std::string found;
  const auto compare = [&](const char* name, int a, int b) {
    if (a != b) found += (found.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(a) + ", not " + std::to_string(b);
  };
  compare("threads", have.threads, asked.threads);
  compare("sequences", have.sequences, asked.sequences);
  compare("contextPerSequence", have.contextPerSequence, asked.contextPerSequence);
  compare("batch", have.batch, asked.batch);
  compare("ubatch", have.ubatch, asked.ubatch);
  return found;
}

}  // namespace

Engine::Engine(const EngineSettings& asked)
    : settings(asked),
      vocabulary(asked.llama.model),
      loading_(std::make_unique<LlamaDecoder>(asked.llama)),
      decoder(*loading_),
      info(decoder.info()),
      scheduler(std::move(loading_), asked.scheduler) {}

std::shared_ptr<Engine> acquireEngine(const EngineSettings& settings) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::weak_ptr<Engine>& entry = registry().engines[settings.llama.model];
  if (std::shared_ptr<Engine> engine = entry.lock()) {
    const std::string difference = differing(engine->settings.llama, settings.llama);
    if (difference.empty()) return engine;
    throw std::runtime_error(settings.llama.model + " is loaded already, with " + difference +
                             "; give the same settings, or close the engine first");
  }
  const auto engine = std::make_shared<Engine>(settings);
  entry = engine;
  return engine;
}

void releaseEngine(std::shared_ptr<Engine> engine) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  engine.reset();
}

void stopEngines() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  for (auto& [path, entry] : registry().engines) {
    if (const std::shared_ptr<Engine> engine = entry.lock()) engine->scheduler.stop();
  }
}

}  // namespace hone
