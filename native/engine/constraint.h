// The tokens that a turn may have, where it may not have all.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "decoder.h"
#include "sampling.h"

namespace hone {

/** Used by one thread at a time. Every member may throw std::exception; the message is for the user. */
class Constraint {
 public:
  virtual ~Constraint() = default;

  /** Whether the token may come next. */
  virtual bool allows(Token token) = 0;
  /** Gives -infinity to the logits of tokens that may not come next. */
  virtual void mask(std::vector<float>& logits) = 0;
  /** The next token, which is allowed. */
  virtual void accept(Token token) = 0;
};

/** The tokens that could come at each position of a turn. Each set is kept once. */
class AllowedSets {
 public:
  /** The next position's: those of the vocabulary whose `allowed` is not 0. */
  void add(const std::vector<char>& allowed);

  /** Of each position the number of its set; -1 where every token could come. */
  const std::vector<int32_t>& numbers() const { return numbers_; }
  /** A bit for each token of the vocabulary, the lowest of a byte first. */
  const std::vector<std::vector<uint8_t>>& sets() const { return sets_; }

 private:
  std::vector<int32_t> numbers_;
  std::vector<std::vector<uint8_t>> sets_;
  std::map<std::vector<uint8_t>, int32_t> known_;
};

/**
 * Draws the token at a position of a sequence, and accepts it. Masking a whole vocabulary takes long, so a token is
 * drawn from all first, and only where it is refused another one from those that are allowed: without truncation the
 * probabilities are those of the distribution restricted to the allowed tokens. With top-k, top-p or min-p, the first
 * draw is truncated before the refusal, the second after it (llama.cpp's common_sampler_sample does the same).
 *
 * The log-probability is the token's under the softmax of all logits.
 *
 * @throws std::runtime_error when no token is allowed
 */
Drawn drawAllowed(Sampler& sampler, const float* logits, int n, const SamplingParams& params, uint64_t position,
                  Constraint& constraint);

/**
 * Draws the token at a position from the allowed tokens alone, accepts it, and adds the allowed ones to `sets`. Its
 * log-probability and moments are those of the restricted distribution, which has the same probabilities as what
 * {@link drawAllowed} draws. Each position costs a pass of the grammar over the vocabulary.
 *
 * @throws std::runtime_error when no token is allowed
 */
Drawn drawRestricted(Sampler& sampler, const float* logits, int n, const SamplingParams& params, uint64_t position,
                     Constraint& constraint, AllowedSets& sets);

}  // namespace hone
