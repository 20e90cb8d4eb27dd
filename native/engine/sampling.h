// Draws a token from a row of logits, and computes its log-probability.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder.h"

namespace hone {

/** Applied in this order: temperature, top-k, top-p (of the tokens left by top-k), min-p. */
struct SamplingParams {
  /** 0 takes the most likely token. */
  float temperature = 1;
  /** 0: all. */
  int topK = 0;
  float topP = 1;
  float minP = 0;
  uint64_t seed = 0;

  bool truncates() const { return topK > 0 || topP < 1 || minP > 0; }
};

/** A number in [0, 1) that depends only on the seed and the position. */
double uniform(uint64_t seed, uint64_t position);

class Sampler {
 public:
  /** `draw` in [0, 1) selects the token by inversion. */
  Drawn draw(const float* logits, int n, const SamplingParams& params, double draw);

 private:
  struct Candidate {
    float logit;
    /** Its probability relative to the peak's: exp((logit - peak) / temperature). */
    float weight;
    Token token;
  };
  /** A strict order: most likely first, then the lowest id. */
  static bool likelier(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  }

  /** The current row. */
  struct Row {
    const float* logits;
    int n;
    float peak;
    float temperature;
    float scale;
  };

  void collect(const Row& row, float from);
  double mass(size_t begin, size_t end) const;
  void keepTopK(const Row& row, int k);
  void keepTopP(const Row& row, double target, bool collected);
  Token drawFromAll(const Row& row, double at) const;

  std::vector<Candidate> candidates_;
  std::vector<double> sums_;
};

struct Likely {
  Token token;
  /** Under the softmax of the logits. */
  float logprob;
};

/** The `count` likeliest tokens, likeliest first. The logits must be finite. */
std::vector<Likely> likeliestOf(const float* logits, int n, int count);

/** Natural log of a token's probability under the softmax of the logits. NaN when they are not finite. */
float logprobOf(const float* logits, int n, Token token);

}  // namespace hone
