#include "draft.h"

#include <algorithm>

namespace hone {
namespace {

/** Entries, a power of two: 786 kB. 128 rollouts of the email task with their prompts fill a fifth. */
constexpr size_t kEntries = size_t{1} << 16;
/** Before anything was verified, and the weight of one that is. */
constexpr double kFirstChance = 0.5;
constexpr double kWeight = 1.0 / 32;

/** Of the `length` tokens before `end`. */
uint64_t hashBefore(const Token* end, int length) {
  uint64_t hash = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(length);
  for (int i = length; i > 0; i--) {
    hash = (hash ^ static_cast<uint32_t>(end[-i])) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

size_t indexOf(uint64_t hash) { return hash & (kEntries - 1); }
uint32_t checkOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

Drafter::Drafter() : table_(kEntries) { chances_.fill(kFirstChance); }

void Drafter::learn(const std::vector<Token>& tokens, size_t from) {
  for (size_t at = std::max<size_t>(from, 1); at < tokens.size(); at++) {
    for (const int length : kLengths) {
      if (static_cast<size_t>(length) > at) continue;
      const uint64_t hash = hashBefore(tokens.data() + at, length);
      Entry& entry = table_[indexOf(hash)];
      const bool again = entry.seen > 0 && entry.check == checkOf(hash) && entry.token == tokens[at];
      entry = {checkOf(hash), tokens[at], again ? std::min(entry.seen + 1, kMostSeen) : 1};
    }
  }
}

const Guess Drafter::lookUp(const Token* end, int known) const {
  for (size_t i = 0; i < kLengths.size(); i++) {
    if (kLengths[i] > known) continue;
    const uint64_t hash = hashBefore(end, kLengths[i]);
    const Entry& entry = table_[indexOf(hash)];
    if (entry.seen == 0 || entry.check != checkOf(hash)) continue;
    return {entry.token, static_cast<int>(i) * kMostSeen + entry.seen - 1};
  }
  return {-1, kUnknown};
}

void Drafter::guess(const std::vector<Token>& tokens, int count, std::vector<Guess>& guesses) const {
  guesses.assign(static_cast<size_t>(count), {-1, kUnknown});
  // The last tokens, then the guesses.
  std::vector<Token> text(tokens.end() - std::min<size_t>(tokens.size(), kLongest), tokens.end());
  text.reserve(text.size() + guesses.size());
  for (Guess& guess : guesses) {
    guess = lookUp(text.data() + text.size(), std::min<int>(static_cast<int>(text.size()), kLongest));
    if (guess.token < 0) return;
    text.push_back(guess.token);
  }
}

void Drafter::note(const Guess& guess, bool right) {
  if (guess.kind == kUnknown) return;
  double& chance = chances_[guess.kind];
  chance += kWeight * ((right ? 1 : 0) - chance);
}

}  // namespace hone
