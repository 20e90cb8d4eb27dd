#include "constraint.h"

#include <stdexcept>

namespace hone {
namespace {

/** The second draw has a random number of its own: the first number is known to lead to a refused token. */
constexpr uint64_t kSecondDraw = 0x5851f42d4c957f2du;

}  // namespace

Drawn drawAllowed(Sampler& sampler, const float* logits, int n, const SamplingParams& params, uint64_t position,
                  Constraint& constraint) {
  Drawn drawn = sampler.draw(logits, n, params, uniform(params.seed, position));
  if (drawn.token < 0) return drawn;
  if (!constraint.allows(drawn.token)) {
    std::vector<float> masked(logits, logits + n);
    constraint.mask(masked);
    drawn = sampler.draw(masked.data(), n, params, uniform(params.seed ^ kSecondDraw, position));
    if (drawn.token < 0) throw std::runtime_error("no token of the model's vocabulary goes on as the grammar demands");
  }
  constraint.accept(drawn.token);
  drawn.logprob = logprobOf(logits, n, drawn.token);
  drawn.draws = {};
  return drawn;
}

}  // namespace hone
