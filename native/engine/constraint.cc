#include "constraint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace hone {
namespace {

/** The second draw has a random number of its own: the first number is known to lead to a refused token. */
constexpr uint64_t kSecondDraw = 0x5851f42d4c957f2du;

constexpr const char* kNone = "no token of the model's vocabulary goes on as the grammar demands";

}  // namespace

void AllowedSets::add(const std::vector<char>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), 0) == allowed.end()) return numbers_.push_back(-1);
  std::vector<uint8_t> bits((allowed.size() + 7) / 8);
  for (size_t token = 0; token < allowed.size(); token++) {
    if (allowed[token]) bits[token / 8] |= static_cast<uint8_t>(1u << token % 8);
  }
  const auto [at, isNew] = known_.try_emplace(bits, static_cast<int32_t>(sets_.size()));
  if (isNew) sets_.push_back(std::move(bits));
  numbers_.push_back(at->second);
}

Drawn drawAllowed(Sampler& sampler, const float* logits, int n, const SamplingParams& params, uint64_t position,
                  Constraint& constraint) {
  Drawn drawn = sampler.draw(logits, n, params, uniform(params.seed, position));
  if (drawn.token < 0) return drawn;
  if (!constraint.allows(drawn.token)) {
    std::vector<float> masked(logits, logits + n);
    constraint.mask(masked);
    drawn = sampler.draw(masked.data(), n, params, uniform(params.seed ^ kSecondDraw, position));
    if (drawn.token < 0) throw std::runtime_error(kNone);
  }
  constraint.accept(drawn.token);
  drawn.logprob = logprobOf(logits, n, drawn.token);
  drawn.draws = {};
  return drawn;
}

Drawn drawRestricted(Sampler& sampler, const float* logits, int n, const SamplingParams& params, uint64_t position,
                     Constraint& constraint, AllowedSets& sets) {
  // Unlike a draw, a mask would hide what is not a number.
  if (!std::isfinite(logprobOf(logits, n, 0))) return {};
  std::vector<float> masked(logits, logits + n);
  constraint.mask(masked);
  std::vector<char> allowed(masked.size());
  std::vector<float> left;
  std::vector<Token> tokens;
  for (int token = 0; token < n; token++) {
    allowed[token] = masked[token] != -std::numeric_limits<float>::infinity();
    if (!allowed[token]) continue;
    left.push_back(masked[token]);
    tokens.push_back(token);
  }
  if (tokens.empty()) throw std::runtime_error(kNone);
  const int count = static_cast<int>(left.size());
  Drawn drawn = sampler.draw(left.data(), count, params, uniform(params.seed, position));
  if (drawn.token < 0) return drawn;
  drawn.token = tokens[drawn.token];
  constraint.accept(drawn.token);
  sets.add(allowed);
  return drawn;
}

}  // namespace hone
