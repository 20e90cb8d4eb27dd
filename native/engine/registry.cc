#include "registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "own_decoder.h"

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
  // By model.
  std::map<std::string, std::weak_ptr<const Vocabulary>> vocabularies;
  std::map<std::string, std::weak_ptr<Weights>> weights;
  std::map<std::string, std::weak_ptr<OwnWeightsFile>> ownFiles;
  std::map<std::string, std::weak_ptr<Turnstile>> turnstiles;
};

/** Entries of what is freed are removed: a weak pointer keeps the memory of what make_shared allocated. */
template <typename Map>
void removeExpired(Map& map) {
  for (auto entry = map.begin(); entry != map.end();) {
    entry = entry->second.expired() ? map.erase(entry) : std::next(entry);
  }
}

/** What is known of a model, or made now. */
template <typename T, typename Make>
std::shared_ptr<T> sharedBy(std::map<std::string, std::weak_ptr<T>>& known, const std::string& model, Make make) {
  std::weak_ptr<T>& entry = known[model];
  std::shared_ptr<T> shared = entry.lock();
  if (!shared) entry = shared = make();
  return shared;
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
  compareFlag("ownDecoder", before.own, now.own);
  return found;
}

OfFile ofFile(const EngineSettings& settings) {
  Registry& all = registry();
  const std::string& model = settings.model;
  const LlamaSettings& llama = settings.llama;
  OfFile file;
  file.vocabulary = sharedBy(all.vocabularies, model, [&] { return std::make_shared<const Vocabulary>(model); });
  file.weights = sharedBy(all.weights, model, [&] {
    return std::make_shared<Weights>(model, llama.useGpu, !file.vocabulary->carriesState());
  });
  if (settings.own) {
    file.own = sharedBy(all.ownFiles, model, [&] {
      // Rows for A, which is rounded for it, are worth it where each kernel costs: where shapes are few, too.
      return std::make_shared<OwnWeightsFile>(model, llama.useGpu, settings.scheduler.steady);
    });
  }
  // Several lanes are to compute at once; threads that nobody waits for share the cores by themselves.
  if (!llama.useGpu && settings.lanes == 1 && llama.threads > 1) {
    file.turnstile = sharedBy(all.turnstiles, model, [] { return std::make_shared<Turnstile>(); });
  }
  return file;
}

}  // namespace

Engine::Engine(const EngineSettings& asked, OfFile file)
    : settings(asked),
      file_(std::move(file)),
      vocabulary(*file_.vocabulary),
      lanes(loadLanes()),
      info(decoders_.front()->info()) {}

std::vector<Lane> Engine::loadLanes() {
  whyLlama_ = settings.whyLlama;
  if (file_.own && whyLlama_.empty()) {
    try {
      return loadLanes(true);
    } catch (const Unplayable& unplayable) {
      whyLlama_ = unplayable.what();
      decoders_.clear();
    }
  }
  file_.own.reset();
  return loadLanes(false);
}

std::vector<Lane> Engine::loadLanes(bool own) {
  const ModelInfo described = own ? describeFile(settings.model) : ModelInfo{};
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
    std::unique_ptr<ModelDecoder> decoder;
    if (own) decoder = std::make_unique<OwnDecoder>(file_.own, described, llama, scheduler.steady);
    else decoder = std::make_unique<LlamaDecoder>(file_.weights, llama);
    scheduler.pooled = decoder->pooled();
    decoders_.push_back(decoder.get());
    loaded.push_back({std::move(decoder), scheduler, file_.turnstile});
  }
  return loaded;
}

uint64_t Engine::kvBytes() const {
  uint64_t bytes = 0;
  for (const ModelDecoder* decoder : decoders_) bytes += decoder->kvBytes();
  return bytes;
}

LlamaReport Engine::report() const {
  LlamaReport all = file_.own ? file_.own->report() : file_.weights->report();
  all.flashAttention = decoders_.front()->report().flashAttention;
  for (const ModelDecoder* decoder : decoders_) addBuffers(all.buffers, decoder->report().buffers);
  return all;
}

bool Engine::samplesOnDevice() const {
  return std::all_of(decoders_.begin(), decoders_.end(), [](const ModelDecoder* one) { return one->samples(); });
}

std::string Engine::whyHost() const {
  for (const ModelDecoder* decoder : decoders_) {
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
  const auto engine = std::make_shared<Engine>(settings, ofFile(settings));
  removeExpired(engines);
  removeExpired(registry().vocabularies);
  removeExpired(registry().weights);
  removeExpired(registry().ownFiles);
  removeExpired(registry().turnstiles);
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
