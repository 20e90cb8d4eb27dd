// What the scheduler needs of a model: evaluate a batch, read logits, handle the KV of slots.
// The scheduler knows nothing else of llama.cpp, so that it can be built and tested alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

using Token = int32_t;

/**
 * Where the KV is pooled, slots below 0 hold tokens that only give a batch its shape (SchedulerSettings::steady): this
 * one, the next lower, and so on; at most as many as there are slots. They are empty before and after a batch.
 */
constexpr int kPadding = -1;

/**
 * Tokens to evaluate, in ascending order of slots with padding behind them; the tokens of a slot follow its cells. All
 * vectors have one length.
 */
struct Batch {
  std::vector<Token> tokens;
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;
  /** 1 where logits are wanted. */
  std::vector<int8_t> wanted;

  int size() const { return static_cast<int>(tokens.size()); }

  void clear() {
    tokens.clear();
    positions.clear();
    slots.clear();
    wanted.clear();
  }

  /** Returns the row of the token. */
  int add(Token token, int position, int slot, bool want) {
    tokens.push_back(token);
    positions.push_back(position);
    slots.push_back(slot);
    wanted.push_back(want ? 1 : 0);
    return size() - 1;
  }
};

/** Used by one thread at a time. Every member may throw std::exception; the message is for the user. */
class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual int vocabularySize() const = 0;
  /** Whether `trim` works: the state of recurrent models cannot be taken back. */
  virtual bool canTrim() const = 0;

  /** After an exception the KV is unknown: call `clear`. */
  virtual void decode(const Batch& batch) = 0;
  /** Passes of the last batch whose graph llama.cpp did not have to build anew, as the one before had its shape. */
  virtual int reusedGraphs() const = 0;
  /** `vocabularySize` floats for a wanted row of the last batch; valid until the next call. May be read by several threads. */
  virtual const float* logits(int row) const = 0;

  // When one of the following throws, the KV of the slot that it changes is unknown.

  /** Replaces the KV of slot `to` by a copy of slot `from`. */
  virtual void copy(int from, int to) = 0;
  /** Keeps the first `length` cells of a slot. */
  virtual void trim(int slot, int length) = 0;
  /** Empties all slots. */
  virtual void clear() = 0;

  // A LoRA adapter is changed in three calls, so that several decoders can change it together or not at all. The KV
  // stays as it is. All three also work while the decoder sleeps: `wake` then puts the adapter on.

  /**
   * Reads an adapter by its path, "" for none, and keeps it beside the one in use. When it throws, nothing is beside.
   * A decoder that sleeps without weights only checks the file; `wake` reads it.
   */
  virtual void loadAdapter(const std::string& path) = 0;
  /** Exchanges the adapter in use and the one beside; again takes that back. When it throws, nothing has changed. */
  virtual void swapAdapter() = 0;
  /** Frees the adapter beside, if there is one. */
  virtual void dropAdapter() noexcept = 0;

  /**
   * Frees the KV, with `weights` also the weights. Nothing but `sleep`, `wake` and changes of the adapter may follow, also
   * when it throws.
   */
  virtual void sleep(bool weights) = 0;
  /**
   * Undoes `sleep`, with the adapter in use and so many slots, at most as many as it was made with; all are empty. When
   * it throws, the decoder sleeps as before.
   */
  virtual void wake(int slots) = 0;

  /**
   * Makes the device compile what the batches to come need, if it has not done so yet for the kind of the adapter in use
   * (one, or none). All slots are empty afterwards. When it throws, their KV is unknown. Not while it sleeps; `wake` does
   * it by itself.
   */
  virtual void warmUp() = 0;

  /** CPU threads of the batches from now on: at least 1, at most as many as it was made with. Not while it sleeps. */
  virtual void setThreads(int threads) = 0;

  /** On any thread: `decode` fails soon, now and from now on. Nobody waits for what it would give. */
  virtual void abort() = 0;
};

}  // namespace hone
