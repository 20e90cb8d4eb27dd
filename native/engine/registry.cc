#include "registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hone {
namespace {

/**
 * Never destroyed: engines end by `stopEngines`, not in the unordered destruction of static objects. Loading and
 * freeing hold the lock, so that a model is never loaded while the same memory is still being freed.
 */
struct Registry {
  std::timed_mutex mutex;
  using Key = std::pair<std::string, std::string>;  // model and name
  std::map<Key, std::weak_ptr<Engine>> engines;
  std::map<std::string, std::weak_ptr<Weights>> weights;
};

/** Entries of what is freed are removed: a weak pointer keeps the memory of what make_shared allocated. */
template <typename Map>
void removeExpired(Map& map) {
  for (auto entry = map.begin(); entry != map.end();) {
    entry = entry->second.expired() ? map.erase(entry) : std::next(entry);
  }
}

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

std::string differing(const EngineSettings& before, const EngineSettings& now) {
  const LlamaSettings& have = before.llama;
  const LlamaSettings& asked = now.llama;
  std::string found;
  const auto compare = [&](const char* name, int a, int b) {
    if (a != b) found += (found.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(a) + ", not " + std::to_string(b);
  };
  compare("lanes", before.lanes, now.lanes);
  compare("threads", have.threads, asked.threads);
  compare("sequences", have.sequences, asked.sequences);
  compare("contextPerSequence", have.contextPerSequence, asked.contextPerSequence);
  compare("batch", have.batch, asked.batch);
  compare("ubatch", have.ubatch, asked.ubatch);
  const auto compareFlag = [&](const char* name, bool a, bool b) {
    if (a != b) found += (found.empty() ? "" : ", ") + std::string(name) + (a ? " true, not false" : " false, not true");
  };
  compareFlag("exact", have.exact, asked.exact);
  compareFlag("drawOnDevice", have.drawOnDevice, asked.drawOnDevice);
  compareFlag("drawUntried", have.drawUntried, asked.drawUntried);
  compareFlag("pooledKv", have.pooled, asked.pooled);
  compareFlag("steadyShapes", before.scheduler.steady, now.scheduler.steady);
  return found;
}

}  // namespace

Engine::Engine(const EngineSettings& asked, std::unique_ptr<Vocabulary> vocabulary, std::shared_ptr<Weights> weights)
    : settings(asked),
      vocabulary_(std::move(vocabulary)),
      vocabulary(*vocabulary_),
      weights_(std::move(weights)),
      lanes(loadLanes()),
      info(decoders_.front()->info()) {}

std::vector<Lane> Engine::loadLanes() {
  std::vector<Lane> loaded;
  for (int index = 0; index < settings.lanes; index++) {
    LlamaSettings llama = settings.llama;
    llama.sequences = shareOf(settings.llama.sequences, settings.lanes, index);
    llama.outputs = settings.llama.outputs - settings.llama.sequences + llama.sequences;
    llama.threads = std::max(1, shareOf(settings.llama.threads, settings.lanes, index));
    SchedulerSettings scheduler = settings.scheduler;
    scheduler.slots = llama.sequences;
    scheduler.outputs = llama.outputs;
    scheduler.threads = llama.threads;
    auto decoder = std::make_unique<LlamaDecoder>(weights_, llama);
    scheduler.pooled = decoder->pooled();
    decoders_.push_back(decoder.get());
    loaded.push_back({std::move(decoder), scheduler});
  }
  return loaded;
}

uint64_t Engine::kvBytes() const {
  uint64_t bytes = 0;
  for (const LlamaDecoder* decoder : decoders_) bytes += decoder->kvBytes();
  return bytes;
}

LlamaReport Engine::report() const {
  LlamaReport all = weights_->report();
  all.flashAttention = decoders_.front()->report().flashAttention;
  for (const LlamaDecoder* decoder : decoders_) addBuffers(all.buffers, decoder->report().buffers);
  return all;
}

bool Engine::samplesOnDevice() const {
  return std::all_of(decoders_.begin(), decoders_.end(), [](const LlamaDecoder* one) { return one->samples(); });
}

std::string Engine::whyHost() const {
  for (const LlamaDecoder* decoder : decoders_) {
    if (!decoder->whyHost().empty()) return decoder->whyHost();
  }
  return "";
}

std::shared_ptr<Engine> acquireEngine(const EngineSettings& settings) {
  std::lock_guard<std::timed_mutex> lock(registry().mutex);
  auto& engines = registry().engines;
  const Registry::Key key(settings.model, settings.name);
  const auto found = engines.find(key);
  if (std::shared_ptr<Engine> engine = found == engines.end() ? nullptr : found->second.lock()) {
    const std::string difference = differing(engine->settings, settings);
    if (difference.empty()) return engine;
    throw std::runtime_error(settings.model + " is loaded already, with " + difference +
                             "; give the same settings, or close the engine first");
  }
  auto vocabulary = std::make_unique<Vocabulary>(settings.model);
  auto& known = registry().weights[settings.model];
  std::shared_ptr<Weights> weights = known.lock();
  if (!weights) {
    known = weights = std::make_shared<Weights>(settings.model, settings.llama.useGpu, !vocabulary->carriesState());
  }
  const auto engine = std::make_shared<Engine>(settings, std::move(vocabulary), std::move(weights));
  removeExpired(engines);
  removeExpired(registry().weights);
  engines[key] = engine;
  return engine;
}

void releaseEngine(std::shared_ptr<Engine> engine) {
  std::lock_guard<std::timed_mutex> lock(registry().mutex);
  engine.reset();
}

bool stopEngines(Clock::time_point by) {
  std::unique_lock<std::timed_mutex> lock(registry().mutex, by);
  if (!lock) return false;
  std::vector<std::shared_ptr<Engine>> engines;
  for (auto& [key, entry] : registry().engines) {
    if (std::shared_ptr<Engine> engine = entry.lock()) engines.push_back(std::move(engine));
  }
  for (const auto& engine : engines) engine->lanes.beginStop();
  return std::all_of(engines.begin(), engines.end(), [&](const auto& engine) { return engine->lanes.endBy(by); });
}

}  // namespace hone
