#include "slots.h"

#include <algorithm>

namespace hone {

int commonPrefix(const std::vector<Token>& a, const std::vector<Token>& b, int limit) {
  const int end = std::min({static_cast<int>(a.size()), static_cast<int>(b.size()), limit});
  return static_cast<int>(std::mismatch(a.begin(), a.begin() + end, b.begin()).first - a.begin());
}

uint32_t digestOf(const std::vector<Token>& cells, const std::vector<Token>& tokens) noexcept {
  uint32_t digest = 2166136261u;
  for (size_t i = 0; i < std::max(cells.size(), tokens.size()); i++) {
    digest = (digest ^ static_cast<uint32_t>(i < cells.size() ? cells[i] : tokens[i])) * 16777619u;
  }
  return digest;
}

Slots::Slots(Decoder& decoder, int count) : decoder_(decoder), slots_(count), free_(count) {}

void Slots::resize(int count) noexcept {
  slots_.resize(count);  // within the capacity that the vector has from the beginning: nothing is allocated
  free_ = count;
}

/** Number of leading cells of a slot that `tokens` can start from. */
int Slots::usable(int slot, const std::vector<Token>& tokens, int limit) const {
  if (foreign(slot)) return 0;
  const std::vector<Token>& cells = slots_[slot].cells;
  const int common = commonPrefix(cells, tokens, limit);
  return decoder_.canTrim() || common == static_cast<int>(cells.size()) ? common : 0;
}

int Slots::longestPrefix(const std::vector<Token>& tokens, int limit) const {
  int best = 0;
  for (int slot = 0; slot < count(); slot++) best = std::max(best, usable(slot, tokens, limit));
  return best;
}

/**
 * The cheapest free slot to overwrite: the lowest empty one, else the least recently used. One that failed may fail
 * again, so it comes last.
 */
int Slots::emptiest() const {
  int best = -1, last = -1;
  for (int slot = 0; slot < count(); slot++) {
    if (slots_[slot].holder != 0) continue;
    if (slots_[slot].unknown) {
      if (last < 0) last = slot;
      continue;
    }
    if (slots_[slot].cells.empty()) return slot;
    if (best < 0 || slots_[slot].used < slots_[best].used) best = slot;
  }
  return best < 0 ? last : best;
}

Slots::Placed Slots::place(SequenceId holder, const std::vector<Token>& tokens, int limit, int leastCopy) {
  int own = -1, ownCells = 0;
  int donor = -1, donorCells = 0;
  for (int slot = 0; slot < count(); slot++) {
    const int cells = usable(slot, tokens, limit);
    if (slots_[slot].holder == 0) {
      if (cells > ownCells) {
        own = slot;
        ownCells = cells;
      }
    } else if (cells > donorCells) {
      donor = slot;
      donorCells = cells;
    }
  }
  const bool copied = donor >= 0 && donorCells - ownCells >= leastCopy;
  const int slot = copied || own < 0 ? emptiest() : own;
  const int reused = copied ? donorCells : own < 0 ? 0 : ownCells;
  slots_[slot].holder = holder;
  free_--;
  try {
    fill(slot, copied ? donor : -1, reused);
  } catch (...) {
    lose(slot);
    throw;
  }
  return {slot, reused, copied};
}

/** Gives a slot the first `length` cells of the donor's, or of its own without a donor. */
void Slots::fill(int slot, int donor, int length) {
  if (donor >= 0) {
    decoder_.copy(donor, slot);
    slots_[slot].cells = slots_[donor].cells;
    slots_[slot].adapter = slots_[donor].adapter;
  } else if (slots_[slot].unknown) {
    decoder_.trim(slot, 0);
  }
  slots_[slot].unknown = false;
  trim(slot, length);
}

void Slots::release(int slot) {
  slots_[slot].holder = 0;
  slots_[slot].used = ++clock_;
  free_++;
}

void Slots::lose(int slot) {
  slots_[slot].cells.clear();
  slots_[slot].unknown = true;
  release(slot);
}

void Slots::append(int slot, Token token) {
  Slot& one = slots_[slot];
  if (one.cells.empty()) one.adapter = adapter_;
  one.cells.push_back(token);
}

void Slots::trim(int slot, int length) {
  if (static_cast<int>(slots_[slot].cells.size()) == length) return;
  decoder_.trim(slot, length);
  slots_[slot].cells.resize(length);
}

void Slots::move(int from, int to) {
  decoder_.copy(from, to);
  slots_[to].unknown = false;
  slots_[to].cells = std::move(slots_[from].cells);
  slots_[to].adapter = slots_[from].adapter;
  slots_[to].holder = slots_[from].holder;
  slots_[from].cells.clear();
  slots_[from].holder = 0;
  decoder_.trim(from, 0);
}

void Slots::restore(int slot) { decoder_.trim(slot, static_cast<int>(slots_[slot].cells.size())); }

void Slots::forget(bool clearDecoder) noexcept {
  bool unknown = false;
  try {
    if (clearDecoder) decoder_.clear();
  } catch (...) {
    // The caller reports its own failure; if this one persists, emptying the slot before its next use reports it.
    unknown = true;
  }
  for (Slot& slot : slots_) {
    slot.holder = 0;
    slot.cells.clear();
    slot.unknown = unknown;
  }
  free_ = count();
}

}  // namespace hone
