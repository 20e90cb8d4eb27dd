// The engines of this process. One per model file and name, shared by all threads, freed with its last user.
#pragma once

#include <memory>
#include <string>

#include "lanes.h"
#include "llama_decoder.h"
#include "model.h"
#include "model_decoder.h"
#include "own_weights.h"
#include "turnstile.h"

namespace hone {

struct EngineSettings {
  std::string model;
  /** Engines of one model with different names share what is the file's (`OfFile`), and nothing else. */
  std::string name;
  /** Number of contexts; at most as many as sequences. */
  int lanes = 1;
  /** Total of all lanes. */
  LlamaSettings llama;
  /** The graph of hone's own plays, where it can. */
  bool own = false;
  /** Why it does not, as a trial found; "" where it may. */
  std::string whyLlama;
  /** For each lane; its slots, outputs and threads are its share of `llama`. */
  SchedulerSettings scheduler;
};

/** What the engines of one model file share. */
struct OfFile {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::shared_ptr<Weights> weights;
  /** Null where llama.cpp's graph plays. */
  std::shared_ptr<OwnWeightsFile> own;
  /** For those that compute on the same cores with threads that spin; null for another. */
  std::shared_ptr<Turnstile> turnstile;
};

/** Thread-safe. Owns the weights, their contexts and the decode threads. */
class Engine {
 public:
  Engine(const EngineSettings& settings, OfFile file);

  uint64_t weightBytes() const { return file_.weights->bytes() + (file_.own ? file_.own->bytes() : 0); }
  uint64_t kvBytes() const;
  /** How weights and contexts were created, and all current buffers. */
  LlamaReport report() const;
  /** All lanes draw where the logits are; else `whyHost` says why one does not, unless none should. */
  bool samplesOnDevice() const;
  std::string whyHost() const;
  /** Why llama.cpp's graph plays, though hone's own should; "" where that plays, or should not. */
  const std::string& whyLlama() const { return whyLlama_; }
  bool fullKv() const { return decoders_.front()->fullKv(); }
  uint64_t kvBytesPerSequence() const { return decoders_.front()->kvBytesPerSequence(); }

  const EngineSettings settings;

 private:
  OfFile file_;

 public:
  const Vocabulary& vocabulary;

 private:
  std::string whyLlama_;
  /** The lanes own them. */
  std::vector<const ModelDecoder*> decoders_;

 public:
  Lanes lanes;
  const ModelInfo info;

 private:
  std::vector<Lane> loadLanes();
  std::vector<Lane> loadLanes(bool own);
};

/**
 * The engine of a model file and a name: the existing one, or a new one.
 * @throws std::runtime_error when it exists with other settings, or cannot be loaded
 */
std::shared_ptr<Engine> acquireEngine(const EngineSettings& settings);

/** Releases one use; the last release frees the engine before it returns. */
void releaseEngine(std::shared_ptr<Engine> engine);

/** Ends all decode threads, at the end of the process. False where one has not ended by then, as with a device that hangs. */
bool stopEngines(Clock::time_point by);

}  // namespace hone
