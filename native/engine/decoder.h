// The scheduler's interface to a model: evaluate a batch, read logits, manage the KV of slots.
// The scheduler uses nothing else of llama.cpp, so that it can be built and tested alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

using Token = int32_t;

/**
 * In a pooled KV, slots below 0 hold padding tokens that only give a batch its shape (SchedulerSettings::steady): this
 * one, the next lower, and so on; at most as many as there are slots. They are empty before and after a batch.
 */
constexpr int kPadding = -1;

/** How the token after a row is drawn where the logits are: by inversion of the softmax of logits / temperature. */
struct Draw {
  /** In [0, 1). */
  double uniform = 0.5;
  float temperature = 1;
};

/**
 * How draws agree with the probabilities that they were drawn with: Σ (-log p(token) - entropy), whose expected value is 0, and its
 * variance Σ (E[log² p] - entropy²), over so many draws, nats.
 */
struct Draws {
  uint64_t tokens = 0;
  double deviation = 0;
  double variance = 0;

  void add(const Draws& other) {
    tokens += other.tokens;
    deviation += other.deviation;
    variance += other.variance;
  }
};

struct Drawn {
  /** -1 when the logits hold NaN or infinities: the model is broken. */
  Token token = -1;
  /** Natural log of the token's probability under the distribution it was drawn from; 0 at temperature 0. */
  float logprob = 0;
  /** Of this one; none where the distribution is truncated or constrained, or a device draws. */
  Draws draws{};
};

/**
 * Tokens to evaluate, in ascending order of slots, with padding at the end; the tokens of a slot follow its cells. All
 * vectors have the same length.
 */
struct Batch {
  std::vector<Token> tokens;
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;
  /** 1 where logits are requested. */
  std::vector<int8_t> wanted;
  /**
   * Where the decoder is to draw (Decoder::samples), how after each token whose logits are requested; else empty. As long
   * as the others.
   */
  std::vector<Draw> draws;

  int size() const { return static_cast<int>(tokens.size()); }

  void clear() {
    tokens.clear();
    positions.clear();
    slots.clear();
    wanted.clear();
    draws.clear();
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
  /** Whether `trim` works: the state of recurrent models cannot be rolled back. */
  virtual bool canTrim() const = 0;

  /** After an exception the KV is unknown: call `clear`. */
  virtual void decode(const Batch& batch) = 0;
  /** Passes of the last batch for which llama.cpp reused the graph, since the previous one had the same shape. */
  virtual int reusedGraphs() const = 0;
  /**
   * Tokens of a slot at most, beside one of every other slot, with which a batch is one pass of a steady shape
   * (SchedulerSettings::steady); 0 where it is not.
   */
  virtual int mixedTokens() const { return 0; }
  /**
   * `vocabularySize` floats for a requested row of the last batch; valid until the next call. Several threads may read
   * them.
   */
  virtual const float* logits(int row) const = 0;

  /** Whether it can draw tokens where the logits are, so that logits need not be copied: see Batch::draws. */
  virtual bool samples() const = 0;
  /** What was drawn after a requested row of the last batch, which had draws. It has no logits. */
  virtual Drawn sampled(int row) const = 0;
  /** Bytes of logits, or of what was drawn, that the last batch copied to where `logits` and `sampled` read them. */
  virtual uint64_t copiedBytes() const = 0;

  // When one of the following throws, the KV of the slot that it changes is unknown.

  /** Replaces the KV of slot `to` by a copy of slot `from`. */
  virtual void copy(int from, int to) = 0;
  /** Keeps the first `length` cells of a slot. */
  virtual void trim(int slot, int length) = 0;
  /** Empties all slots. */
  virtual void clear() = 0;

  // A LoRA adapter is changed in three calls, so that several decoders can change it together or not at all. The KV
  // is not changed. All three also work while the decoder sleeps: `wake` then loads the adapter.

  /**
   * Reads an adapter by its path, "" for none, as the second one beside the one in use. If it throws, there is no
   * second one. A decoder that sleeps without weights only checks the file; `wake` reads it.
   */
  virtual void loadAdapter(const std::string& path) = 0;
  /** Exchanges the adapter in use and the second one; a repeated call undoes it. If it throws, nothing has changed. */
  virtual void swapAdapter() = 0;
  /** Frees the second adapter, if there is one. */
  virtual void dropAdapter() noexcept = 0;

  /**
   * Frees the KV, with `weights` also the weights. Only `sleep`, `wake` and adapter changes may follow, also after an
   * exception.
   */
  virtual void sleep(bool weights) = 0;
  /**
   * Reverses `sleep`, with the adapter in use and this many slots, at most as many as it was made with; all are empty.
   * If it throws, the decoder still sleeps.
   */
  virtual void wake(int slots) = 0;

  /**
   * Makes the device compile the kernels of later batches, unless already done for the kind of the adapter in use
   * (one, or none). All slots are empty afterwards. If it throws, their KV is unknown. Not while it sleeps; `wake`
   * calls it by itself.
   */
  virtual void warmUp() = 0;

  /** CPU threads of later batches: at least 1, at most as many as it was made with. Not while it sleeps. */
  virtual void setThreads(int threads) = 0;

  /** On any thread: makes `decode` fail soon, permanently. Its result is no longer needed. */
  virtual void abort() = 0;
};

}  // namespace hone
