// Guesses which tokens follow, to be verified in one pass: the token that followed the same last tokens before, in the
// sequence's own text, its tools' results, and in all other sequences of the lane, above all those of its group.
// A guess never changes what is sampled, only how many tokens one pass yields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decoder.h"

namespace hone {

struct Guess {
  /** -1: nothing is known; any token may be evaluated in its place. */
  Token token = -1;
  /** Index of guesses that are equally likely to be right. */
  int kind = 0;
};

/** A table of constant size: what was seen last replaces what was seen before it. Used by one thread. */
class Drafter {
 public:
  Drafter();

  /** Notes the tokens from index `from` on, with those before them. */
  void learn(const std::vector<Token>& tokens, size_t from);
  /** Replaces `guesses` by `count` guesses of the tokens that follow. */
  void guess(const std::vector<Token>& tokens, int count, std::vector<Guess>& guesses) const;
  /** The share of guesses of a kind that were right lately. */
  double chance(int kind) const { return kind == kUnknown ? 0 : chances_[kind]; }
  void note(const Guess& guess, bool right);

 private:
  /** Numbers of last tokens by which a token is looked up, the longest first. */
  static constexpr std::array<int, 4> kLengths{5, 3, 2, 1};
  static constexpr int kLongest = kLengths[0];
  /** Number of repetitions that are told apart. */
  static constexpr int kMostSeen = 4;
  static constexpr int kUnknown = static_cast<int>(kLengths.size()) * kMostSeen;

  struct Entry {
    uint32_t check = 0;
    Token token = -1;
    /** How often in a row this token followed; 0 for an empty entry. */
    int32_t seen = 0;
  };

  const Guess lookUp(const Token* end, int known) const;

  std::vector<Entry> table_;
  std::array<double, kUnknown> chances_;
};

}  // namespace hone
