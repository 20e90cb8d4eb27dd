// Plays the same tokens by OwnDecoder and by LlamaDecoder, in passes of each kind, and compares what follows.
#pragma once

#include <string>
#include <vector>

#include "llama_decoder.h"

namespace hone {

struct TrialSettings {
  std::string model;
  /** "" for none. */
  std::string adapter;
  bool useGpu = false;
  bool steady = false;
  int threads = 1;
};

/** Of log-probabilities: over the likeliest tokens of each row, nats. */
struct Difference {
  double mean = 0;
  double most = 0;
};

struct TrialKind {
  /** prompt, fork, mixed, alone, decode, move, or after: a refusal. */
  std::string name;
  int rows = 0;
  Difference own;
  /** Of llama.cpp from itself, when its passes are cut otherwise. */
  Difference llama;
};

struct OwnTrial {
  std::vector<TrialKind> kinds;
  /** What it says of a pass for which its memory would have to grow; "" where that fits. */
  std::string refusal;
};

/** @throws Unplayable where the graph cannot play the model, another std::exception where nothing can */
OwnTrial tryOwn(const TrialSettings& settings);

}  // namespace hone
