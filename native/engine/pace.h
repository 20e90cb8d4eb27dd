// What the time that batches take means: for the next batch, and for the turns that they evaluate. Independent of llama.cpp.
#pragma once

#include <algorithm>
#include <chrono>

namespace hone {

/**
 * Prompts are evaluated in pieces: between two batches alone a turn is ended by its limit, or cancelled. A piece has all tokens that
 * are allowed, until a batch takes more than twice the `aim`: the shape of a batch moves logits by rounding, so that time has a part
 * in what is sampled only where a machine is slow for its model.
 */
class Pace {
 public:
  using Duration = std::chrono::steady_clock::duration;
  /** Fewer tokens take hardly less time on a CPU. */
  static constexpr int kLeast = 32;

  Pace(int most, Duration aim) : most_(most), aim_(aim), now_(most) {}

  /** Tokens of prompts in the next batch, at most. */
  int tokens() const { return now_; }

  /** A batch with so many tokens of prompts took so long. */
  void took(int tokens, Duration time) {
    if (tokens > now_ / 2 && 2 * time < aim_) now_ = std::min(2 * now_, most_);
    if (tokens <= kLeast || time <= 2 * aim_) return;
    int fits = kLeast;
    while (2 * fits * time <= tokens * aim_) fits *= 2;
    now_ = std::min(now_, fits);
  }

  /**
   * The part of a batch's time that counts for the limits of its turns. What it takes beyond is not their doing: the process was
   * stopped, or has lost its cores to others.
   */
  Duration counted(Duration time) const { return std::min(time, 2 * aim_); }

 private:
  const int most_;
  const Duration aim_;
  int now_;
};

}  // namespace hone
