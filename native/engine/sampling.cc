#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "vector_math.h"

namespace hone {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
/** First guess of the distance of candidates below the peak, in units of the temperature; doubled until it suffices. */
constexpr float kReach = 8;
/** Beyond this many temperatures all tokens are candidates: they have no weight, but top-k counts them. */
constexpr float kFarthest = 1024;

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

std::vector<Likely> likeliestOf(const float* logits, int n, int count) {
  const auto above = [](const Likely& a, const Likely& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  };
  // A heap whose front is the least likely of those that are kept.
  std::vector<Likely> kept;
  const size_t wanted = static_cast<size_t>(std::min(count, n));
  for (int i = 0; i < n && wanted > 0; i++) {
    const Likely one{i, logits[i]};
    if (kept.size() == wanted) {
      if (!above(one, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), above);
      kept.pop_back();
    }
    kept.push_back(one);
    std::push_heap(kept.begin(), kept.end(), above);
  }
  std::sort_heap(kept.begin(), kept.end(), above);
  const float peak = maximum(logits, n);
  const double total = std::log(sumOfExponentials(logits, n, peak, 1));
  for (Likely& one : kept) one.logprob = static_cast<float>(one.logprob - peak - total);
  return kept;
}

/** Candidates with at least this logit. A cut at the lowest value takes every finite one. */
void Sampler::collect(const Row& row, float from) {
  candidates_.clear();
  for (int i = 0; i < row.n; i++) {
    const float logit = row.logits[i];
    if (logit >= from && logit > kLowest) candidates_.push_back({logit, exponential((logit - row.peak) * row.scale), i});
  }
}

double Sampler::mass(size_t begin, size_t end) const {
  double sum = 0;
  for (size_t i = begin; i < end; i++) sum += candidates_[i].weight;
  return sum;
}

void Sampler::keepTopK(const Row& row, int k) {
  const size_t wanted = std::min(k, row.n);
  for (float reach = kReach;; reach *= 2) {
    const bool all = reach > kFarthest;
    collect(row, all ? kLowest : row.peak - reach * row.temperature);
    if (all || candidates_.size() >= wanted) break;
  }
  if (candidates_.size() <= wanted) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + wanted, candidates_.end(), likelier);
  candidates_.resize(wanted);
}

/**
 * Keeps the fewest candidates, most likely first, whose weights reach the target. Selection instead of sorting: O(n).
 */
void Sampler::keepTopP(const Row& row, double target, bool collected) {
  for (float reach = kReach; !collected; reach *= 2) {
    const bool all = reach > kFarthest;
    collect(row, all ? kLowest : row.peak - reach * row.temperature);
    collected = all || mass(0, candidates_.size()) >= target;
  }
  // The candidate that crosses the target is in [low, high); all candidates before `low` are kept, with weight `kept`.
  size_t low = 0;
  size_t high = candidates_.size();
  double kept = 0;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(candidates_.begin() + low, candidates_.begin() + middle, candidates_.begin() + high, likelier);
    const double left = mass(low, middle);
    if (kept + left >= target) {
      high = middle;
    } else {
      kept += left;
      low = middle;
    }
  }
  candidates_.resize(low + 1);
}

/** Finds the token where the running sum passes `at`, first by chunk. */
Token Sampler::drawFromAll(const Row& row, double at) const {
  size_t chunk = 0;
  while (chunk + 1 < sums_.size() && at >= sums_[chunk]) at -= sums_[chunk++];
  Token token = -1;
  // Rounding can lead past the end of a chunk, or into an empty one: take the nearest possible token.
  for (; token < 0; chunk--) {
    const int begin = static_cast<int>(chunk) * kChunk;
    const int end = std::min(row.n, begin + kChunk);
    for (int i = begin; i < end; i++) {
      const float weight = exponential((row.logits[i] - row.peak) * row.scale);
      if (weight <= 0) continue;
      token = i;
      if (at < weight) break;
      at -= weight;
    }
    if (chunk == 0) break;
  }
  return token;
}

Drawn Sampler::draw(const float* logits, int n, const SamplingParams& params, double draw) {
  const Row row{logits, n, maximum(logits, n), params.temperature, 1 / params.temperature};
  Drawn drawn;
  if (!std::isfinite(row.peak)) return drawn;

  // The reciprocal of a temperature below 1e-38 is infinite; only the peak can be drawn at such a temperature.
  if (params.temperature <= 0 || !std::isfinite(row.scale)) {
    // The maximum ignores NaNs, a sum does not.
    if (!std::isfinite(sumOfExponentials(logits, n, row.peak, 1))) return drawn;
    drawn.token = static_cast<Token>(std::find(logits, logits + n, row.peak) - logits);
    return drawn;
  }

  double total = 0;
  Moments all;
  sums_.clear();
  for (int i = 0; i < n; i += kChunk) {
    const Moments chunk = momentsOfExponentials(logits + i, std::min(kChunk, n - i), row.peak, row.scale);
    sums_.push_back(chunk.sum);
    total += chunk.sum;
    all.first += chunk.first;
    all.second += chunk.second;
  }
  if (!std::isfinite(total)) return drawn;

  if (!params.truncates()) {
    drawn.token = drawFromAll(row, draw * total);
    if (drawn.token >= 0) {
      // With log p = y - log total, both terms lose the same constant.
      const double mean = all.first / total;
      const double own = (logits[drawn.token] - row.peak) * row.scale;
      drawn.draws = {1, mean - own, std::max(0.0, all.second / total - mean * mean)};
    }
  } else {
    bool collected = false;
    if (params.topK > 0) {
      keepTopK(row, params.topK);
      total = mass(0, candidates_.size());
      collected = true;
    }
    if (params.topP < 1) {
      keepTopP(row, params.topP * total, collected);
      collected = true;
    }
    if (params.minP > 0) {
      const float least = row.peak + row.temperature * std::log(params.minP);
      if (!collected) collect(row, least);
      const auto unlikely = [&](const Candidate& candidate) { return candidate.logit < least; };
      candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), unlikely), candidates_.end());
    }
    total = mass(0, candidates_.size());
    double at = draw * total;
    for (const Candidate& candidate : candidates_) {
      if (candidate.weight <= 0) continue;
      drawn.token = candidate.token;
      at -= candidate.weight;
      if (at < 0) break;
    }
  }
  if (drawn.token < 0) return drawn;
  drawn.logprob = static_cast<float>((logits[drawn.token] - row.peak) * row.scale - std::log(total));
  return drawn;
}

}  // namespace hone
