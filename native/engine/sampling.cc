#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "vector_math.h"

namespace hone {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
/** First guess of how far below the peak candidates lie, in units of the temperature; doubled until it is enough. */
constexpr float kReach = 8;

uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

double uniform(uint64_t seed, uint64_t position) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
  return static_cast<double>(mix(mix(seed + golden) + golden * (position + 1)) >> 11) * 0x1p-53;
}

float logprobOf(const float* logits, int n, Token token) {
  const float peak = maximum(logits, n);
  return static_cast<float>(logits[token] - peak - std::log(sumOfExponentials(logits, n, peak, 1)));
}

/** Candidates with at least this logit. A cut at the lowest value takes every finite one. */
void Sampler::collect(const float* logits, int n, float from) {
  candidates_.clear();
  for (int i = 0; i < n; i++) {
    if (logits[i] >= from && logits[i] > kLowest) candidates_.push_back({logits[i], i});
  }
}

double Sampler::mass(size_t begin, size_t end, float peak, float scale) const {
  double sum = 0;
  for (size_t i = begin; i < end; i++) sum += std::exp(static_cast<double>((candidates_[i].logit - peak) * scale));
  return sum;
}

void Sampler::keepTopK(const float* logits, int n, int k, float peak, float temperature) {
  const size_t wanted = std::min(k, n);
  for (float reach = kReach;; reach *= 2) {
    const bool all = reach > 1e6f;
    collect(logits, n, all ? kLowest : peak - reach * temperature);
    if (all || candidates_.size() >= wanted) break;
  }
  if (candidates_.size() <= wanted) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + wanted, candidates_.end(), likelier);
  candidates_.resize(wanted);
}

/** Keeps the fewest candidates, likeliest first, that hold `share` of `total`. Selection instead of sorting: O(n). */
void Sampler::keepTopP(const float* logits, int n, double share, double total, float peak, float temperature,
                       bool collected) {
  const float scale = 1 / temperature;
  const double target = share * total;
  for (float reach = kReach; !collected; reach *= 2) {
    const bool all = reach > 1e6f;
    collect(logits, n, all ? kLowest : peak - reach * temperature);
    collected = all || mass(0, candidates_.size(), peak, scale) >= target;
  }
  // The candidate that crosses the target lies in [low, high); everything before `low` is kept and holds `kept`.
  size_t low = 0;
  size_t high = candidates_.size();
  double kept = 0;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(candidates_.begin() + low, candidates_.begin() + middle, candidates_.begin() + high, likelier);
    const double left = mass(low, middle, peak, scale);
    if (kept + left >= target) {
      high = middle;
    } else {
      kept += left;
      low = middle;
    }
  }
  candidates_.resize(low + 1);
}

/** Finds the token where the running sum passes `at`, by chunk first. */
Token Sampler::drawFrom(const float* logits, int n, float peak, float scale, double at,
                        const std::vector<double>& sums) const {
  size_t chunk = 0;
  while (chunk + 1 < sums.size() && at >= sums[chunk]) at -= sums[chunk++];
  Token token = -1;
  // Rounding can lead past the end of a chunk, or into one that holds nothing: take the nearest possible token.
  for (; token < 0; chunk--) {
    const int begin = static_cast<int>(chunk) * kChunk;
    const int end = std::min(n, begin + kChunk);
    for (int i = begin; i < end; i++) {
      const float p = exponential((logits[i] - peak) * scale);
      if (p <= 0) continue;
      token = i;
      if (at < p) break;
      at -= p;
    }
    if (chunk == 0) break;
  }
  return token;
}

Drawn Sampler::draw(const float* logits, int n, const SamplingParams& params, double draw) {
  const float peak = maximum(logits, n);
  const double rawTotal = sumOfExponentials(logits, n, peak, 1);
  Drawn drawn;
  if (!std::isfinite(peak) || !std::isfinite(rawTotal)) return drawn;

  if (params.temperature <= 0) {
    drawn.token = static_cast<Token>(std::find(logits, logits + n, peak) - logits);
    drawn.rawLogprob = static_cast<float>(-std::log(rawTotal));
    return drawn;
  }

  const float scale = 1 / params.temperature;
  const bool truncated = params.topK > 0 || params.topP < 1 || params.minP > 0;
  double total = 0;
  sums_.clear();
  for (int i = 0; i < n; i += kChunk) {
    sums_.push_back(sumOfExponentials(logits + i, std::min(kChunk, n - i), peak, scale));
    total += sums_.back();
  }

  if (!truncated) {
    drawn.token = drawFrom(logits, n, peak, scale, draw * total, sums_);
  } else {
    bool collected = false;
    if (params.topK > 0) {
      keepTopK(logits, n, params.topK, peak, params.temperature);
      total = mass(0, candidates_.size(), peak, scale);
      collected = true;
    }
    if (params.topP < 1) {
      keepTopP(logits, n, params.topP, total, peak, params.temperature, collected);
      collected = true;
    }
    if (params.minP > 0) {
      const float least = peak + params.temperature * std::log(params.minP);
      if (!collected) collect(logits, n, least);
      const auto unlikely = [&](const Candidate& candidate) { return candidate.logit < least; };
      candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), unlikely), candidates_.end());
    }
    total = mass(0, candidates_.size(), peak, scale);
    double at = draw * total;
    for (const Candidate& candidate : candidates_) {
      drawn.token = candidate.token;
      at -= std::exp(static_cast<double>((candidate.logit - peak) * scale));
      if (at < 0) break;
    }
  }
  drawn.logprob = static_cast<float>((logits[drawn.token] - peak) * scale - std::log(total));
  drawn.rawLogprob = static_cast<float>(logits[drawn.token] - peak - std::log(rawTotal));
  return drawn;
}

}  // namespace hone
