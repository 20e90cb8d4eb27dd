// How many tokens are guessed for each sequence of a batch: as many as yield the most tokens a second, by what passes
// were measured to cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace hone {

/** Seconds that a pass over the weights takes, by its rows. Measured while running: they depend on the KV too. */
class PassCosts {
 public:
  /** A batch of passes with so many rows took so long. */
  void note(const std::vector<int>& passes, double seconds);
  /** Between measured numbers of rows it is interpolated; 0 before anything was measured. */
  double of(int rows) const;
  /** Number of measurements since passes with so many rows were measured last; a large number for never. */
  int64_t age(int rows) const;

 private:
  struct Cost {
    double seconds;
    int64_t at;
  };
  std::map<int, Cost> costs_;
  int64_t batches_ = 0;
};

/** One number of guesses that a batch could have. */
struct DraftChoice {
  /** Tokens that the batch is expected to yield. */
  double tokens = 0;
  /** Rows of its passes, without prompts. */
  std::vector<int> passes;
};

/** Used by one thread. */
class DraftLength {
 public:
  /** Of every batch without prompts. */
  void note(const std::vector<int>& passes, double seconds) { costs_.note(passes, seconds); }
  /**
   * Index of the choice with the most tokens a second, of some with rising numbers of guesses. Now and then another one
   * that might be better and whose cost was not measured for long.
   *
   * @param measured the batch will be: nothing is tried in one that has prompts too
   */
  size_t choose(const std::vector<DraftChoice>& choices, bool measured);

 private:
  PassCosts costs_;
  /** Number of choices since something was tried. */
  int since_ = 0;
};

}  // namespace hone
