// Records which tokens' KV each slot of the context holds, and which sequence uses it. All changes of KV go through
// here, so that this record and the decoder's memory agree.
//
// A freed slot keeps its cells: the next sequence with a common prefix starts from them.
//
// When the decoder fails to change a slot, the slot's contents are unknown: the record then has no cells, and the slot
// is emptied, or copied over, before it is used again.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder.h"

namespace hone {

/** 0: none. */
using SequenceId = uint64_t;

/**
 * A digest of the ids of a sequence (FNV-1a, each id as one unit; src/core/engine/evaluated.ts has it too): of those in its cells, then
 * of its further tokens.
 */
uint32_t digestOf(const std::vector<Token>& cells, const std::vector<Token>& tokens) noexcept;

/** The number of leading tokens two sequences share, `limit` at most. */
int commonPrefix(const std::vector<Token>& a, const std::vector<Token>& b, int limit);

class Slots {
 public:
  Slots(Decoder& decoder, int count);

  int count() const { return static_cast<int>(slots_.size()); }
  /** At most as many as at the start. No slot is in use and nothing is cached. */
  void resize(int count) noexcept;
  int free() const { return free_; }
  SequenceId holder(int slot) const { return slots_[slot].holder; }
  /** Tokens whose KV the slot holds, from position 0. */
  const std::vector<Token>& cells(int slot) const { return slots_[slot].cells; }

  /** The longest prefix of `tokens`, `limit` at most, that some slot holds. */
  int longestPrefix(const std::vector<Token>& tokens, int limit) const;

  struct Placed {
    int slot;
    /** Cells that need not be evaluated. */
    int reused;
    /** They were copied from another slot. */
    bool copied;
  };
  /**
   * Assigns a free slot to a sequence, with as long a prefix of its tokens (`limit` at most) as some slot holds. Copies
   * of fewer than `leastCopy` cells are not worthwhile. There must be a free slot. If it throws, the slot is free.
   */
  Placed place(SequenceId holder, const std::vector<Token>& tokens, int limit, int leastCopy);

  /** Frees the slot; its cells stay until the slot is needed. */
  void release(int slot);
  /** Frees the slot, whose contents are unknown. */
  void lose(int slot);
  /** Whether the contents are unknown, as a change of the slot failed. */
  bool unknown(int slot) const { return slots_[slot].unknown; }
  /** Records evaluated cells. */
  void append(int slot, Token token);
  void trim(int slot, int length);
  /** Cells that are recorded from now on are of another adapter than those before: these are never begun from. */
  void newAdapter() noexcept { adapter_++; }
  /** Whether the slot has cells that were computed with another adapter than the one in use. */
  bool foreign(int slot) const { return !slots_[slot].cells.empty() && slots_[slot].adapter != adapter_; }
  /** Moves a used slot's cells to a free slot. */
  void move(int from, int to);
  /** Removes cells that the decoder wrote after the recorded ones. */
  void restore(int slot);
  /** Frees all slots and empties the cache; with `clearDecoder` the decoder's memory too. */
  void forget(bool clearDecoder) noexcept;

 private:
  struct Slot {
    SequenceId holder = 0;
    std::vector<Token> cells;
    /** Number of the adapter with which its first cell was computed; all others go on from that one. */
    uint64_t adapter = 0;
    uint64_t used = 0;
    bool unknown = false;
  };
  int emptiest() const;
  void fill(int slot, int donor, int length);
  int usable(int slot, const std::vector<Token>& tokens, int limit) const;

  Decoder& decoder_;
  std::vector<Slot> slots_;
  int free_;
  uint64_t clock_ = 0;
  /** Counts the adapters that were in use. */
  uint64_t adapter_ = 0;
};

}  // namespace hone
