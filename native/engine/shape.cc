// Padding tokens, which only give a batch its shape: they close gaps between slots, or repeat the previous shape.
#include <algorithm>

#include "scheduler.h"

namespace hone {
namespace {

/** Number of smaller batches before the shape shrinks. */
constexpr int kPatience = 32;

/** Beyond this many rows shapes are multiples of `kStep`: a power of two would be up to twice the work. */
constexpr int kDoubled = 512;
constexpr int kStep = 256;

}  // namespace

int shapeOf(int rows) {
  if (rows > kDoubled) return (rows + kStep - 1) / kStep * kStep;
  int shape = 1;
  while (shape < rows) shape *= 2;
  return shape;
}

int HeldShape::of(int rows) {
  const int shape = shapeOf(rows);
  less_ = shape < held_ ? less_ + 1 : 0;
  if (shape >= held_ || less_ > kPatience) {
    held_ = shape;
    less_ = 0;
  }
  return held_;
}

/** Number of slots, from the first, that get a token in every batch; 0 where shapes are not kept, or not by slots. */
int Scheduler::steadySlots() {
  if (!settings_.steady || settings_.pooled || !decoder_->canTrim()) return 0;
  return std::min(outputShape_.of(running_.back()->slot + 1), slots_.count());
}

/** Number of sequences that a batch of a pool has, with padding where shapes are kept; 0 without a pool. */
int Scheduler::pooledRows() {
  if (!settings_.pooled) return 0;
  const int running = static_cast<int>(running_.size());
  return settings_.steady ? std::min(outputShape_.of(running), slots_.count()) : running;
}

/** Evaluates a token for each slot in [from, to), if these are few or shapes are kept. */
void Scheduler::fillGap(int from, int to) {
  if (settings_.pooled || !decoder_->canTrim()) return;
  const auto fits = [&](int slot) {
    return !slots_.unknown(slot) && static_cast<int>(slots_.cells(slot).size()) < settings_.contextPerSlot;
  };
  if (!settings_.steady) {
    if (to - from > settings_.fillGap) return;
    for (int slot = from; slot < to; slot++) {
      if (!fits(slot)) return;
    }
  }
  for (int slot = from; slot < to; slot++) {
    if (fits(slot)) fill(slot);
  }
}

void Scheduler::fill(int slot) {
  const std::vector<Token>& cells = slots_.cells(slot);
  const int position = static_cast<int>(cells.size());
  const auto holder = sequences_.find(slots_.holder(slot));
  // Rows of logits are part of the shape.
  const bool wanted = settings_.steady;
  if (holder != sequences_.end() && !holder->second.scoring() &&
      static_cast<int>(holder->second.tokens.size()) > position) {
    // Useful work: the last token of the previous turn need not be evaluated in the next one.
    const Token token = holder->second.tokens[position];
    batch_.add(token, position, slot, wanted);
    slots_.append(slot, token);
    stats_.prefilled++;
    return;
  }
  batch_.add(cells.empty() ? 0 : cells.back(), position, slot, wanted);
  filled_.push_back(slot);
}

/**
 * Pooled KV: pads tokens, rows of logits and sequences to one of few shapes. A prompt's token changes the shape in any
 * case; then one of few sizes is as good as another number.
 */
void Scheduler::pad(int shape) {
  if (!settings_.steady) return;
  const int size = batch_.size();
  int running = 0;
  for (int i = 0; i < size; i++) running += i == 0 || batch_.slots[i] != batch_.slots[i - 1] ? 1 : 0;
  const int wanted = static_cast<int>(rows_.size());
  const int outputs = std::max(0, shape - wanted);
  const int sequences = shape - running;
  const int tokens = size == running ? sequences : shapeOf(size + std::max(sequences, outputs)) - size;
  for (int i = 0; i < std::min(tokens, std::max(sequences, settings_.ubatch - size)); i++) {
    const int beyond = std::max(0, i - std::max(1, sequences) + 1);
    batch_.add(0, beyond, beyond > 0 ? kPadding : kPadding - i, i < outputs);
  }
}

}  // namespace hone
