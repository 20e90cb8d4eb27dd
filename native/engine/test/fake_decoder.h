// A model without weights. Its logits depend on every token before them and on the adapter each was evaluated under,
// so any mistake in the handling of KV shows in what is sampled. It checks everything the real one relies on.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../decoder.h"
#include "../failure.h"
#include "../sampling.h"

namespace hone {

constexpr int kVocabulary = 50;

inline uint64_t hashed(uint64_t h, uint64_t value) {
  h = (h ^ (value + 1)) * 0x100000001b3u;
  return h ^ (h >> 29);
}

/** What the fake model says after a sequence of tokens under one adapter. */
inline std::vector<float> logitsAfter(uint64_t state) {
  std::vector<float> logits(kVocabulary);
  for (int i = 0; i < kVocabulary; i++) logits[i] = static_cast<float>(hashed(state, i) % 1000) * 0.005f;
  return logits;
}

inline uint64_t stateAfter(const std::vector<Token>& tokens, size_t count, uint64_t adapter) {
  uint64_t state = 7;
  for (size_t i = 0; i < count; i++) state = hashed(hashed(state, tokens[i]), adapter);
  return state;
}

/** True on threads that have evaluated a batch. */
inline thread_local bool onDecodeThread = false;

/** Calls in which a decoder can be told to fail. */
enum class Call { none, decode, copy, trim, clear, load, swap, warm, sleep, wake };

/** Counters that tests may read while the decoders are in use. */
struct FakeCounters {
  std::atomic<int> evaluated{0};
  /** Passes over the weights: runs of neighbouring slots. */
  std::atomic<int> passes{0};
  /** Slots need not be neighbours, and padding is understood. */
  std::atomic<bool> pooled{false};
  /** Decoder::mixedTokens. */
  std::atomic<int> mixed{0};
  /** Batches with rows, and those of them that CUDA would replay: shaped as the last one with rows. */
  std::atomic<int> withRows{0};
  std::atomic<int> replayed{0};
  /** It draws where its logits are. */
  std::atomic<bool> samples{false};
  /** Batches with rows, and how often the next one was sampled elsewhere. */
  std::atomic<int> drawn{0};
  /** What it draws is off by so many tokens. */
  std::atomic<int> drawnWrong{0};
  std::atomic<int> changes{0};
  /** Fail the n-th decode from now; 0: none. */
  std::atomic<int> failIn{0};
  /** That each batch takes, and more for each of its tokens. */
  std::atomic<int> microseconds{0};
  std::atomic<int> microsecondsPerToken{0};
  /** Tokens of a batch at most, since it was set to 0. */
  std::atomic<int> largest{0};
  /** As told last; 0: not told. */
  std::atomic<int> threads{0};
  /** Fail in this call, in this lane (-1: in all), so many times. */
  std::atomic<Call> failing{Call::none};
  std::atomic<int> failingLane{-1};
  std::atomic<int> failures{0};
  /** It fails for want of memory. */
  std::atomic<bool> lacksMemory{false};
  /** Fail in this call too, in this lane, whenever it is called, but not the first so many times. */
  std::atomic<Call> failingToo{Call::none};
  std::atomic<int> failingTooLane{0};
  std::atomic<int> failingTooSkips{0};
  /** Decoders that sleep. */
  std::atomic<int> asleep{0};
  /** Decoders that compute, and how many have at once at most. */
  std::atomic<int> computing{0};
  std::atomic<int> together{0};

  void fail(Call call, int times = 1, int lane = -1) {
    failingLane = lane;
    failures = times;
    failing = call;
  }
};

class FakeDecoder final : public Decoder {
 public:
  FakeDecoder(int slots, int context, bool canTrim, FakeCounters& counters, int lane = 0)
      : slots_(slots), context_(context), canTrim_(canTrim), lane_(lane), counters_(counters), cells_(slots), drawing_(counters.samples) {}
  ~FakeDecoder() override { counters_.asleep -= asleep_ ? 1 : 0; }

  int vocabularySize() const override { return kVocabulary; }
  bool canTrim() const override { return canTrim_; }
  int mixedTokens() const override { return counters_.mixed; }

  void decode(const Batch& batch) override {
    onDecodeThread = true;
    check(!asleep_, "decode while asleep");
    check(batch.size() > 0, "an empty batch");
    rows_.assign(batch.size(), {});
    drawn_.assign(batch.size(), {});
    noteShape(batch);
    notePlace(batch);
    int last = -1;
    std::vector<int> padding;
    std::set<int> wantedSlots;
    for (int i = 0; i < batch.size(); i++) {
      const int slot = batch.slots[i];
      if (slot < 0) {
        check(counters_.pooled && kPadding - slot < static_cast<int>(cells_.size()), "padding that is not understood");
        padding.resize(cells_.size());
        check(batch.positions[i] == padding[kPadding - slot]++, "padding that does not follow its own");
        continue;
      }
      check(padding.empty(), "padding before the end");
      check(slot >= last && slot < static_cast<int>(cells_.size()), "slots are not in order");
      if (slot > last + 1 || last < 0) counters_.passes++;
      last = slot;
      std::vector<Cell>& cells = cells_[slot];
      check(batch.positions[i] == static_cast<int>(cells.size()), "a token does not follow its slot's cells");
      check(static_cast<int>(cells.size()) < context_, "a slot is full");
      check(batch.tokens[i] >= 0 && batch.tokens[i] < kVocabulary, "an unknown token");
      check(adapter_.path.empty() == (adapter_.number == nullptr), "an adapter that was not read");
      cells.push_back({batch.tokens[i], adapter_.number ? *adapter_.number : 0});
      counters_.evaluated++;
      if (!batch.wanted[i]) continue;
      uint64_t state = 7;
      for (const Cell& cell : cells) state = hashed(hashed(state, cell.token), cell.adapter);
      rows_[i] = logitsAfter(state);
      if (!drawing_) continue;
      SamplingParams params;
      params.temperature = batch.draws[i].temperature;
      drawn_[i] = Sampler().draw(rows_[i].data(), kVocabulary, params, batch.draws[i].uniform);
      drawn_[i].token = (drawn_[i].token + counters_.drawnWrong) % kVocabulary;
      rows_[i].clear();
      check(wantedSlots.insert(slot).second, "a slot with two drawn rows");
    }
    counters_.largest = std::max(counters_.largest.load(), batch.size());
    const int micros = counters_.microseconds + batch.size() * counters_.microsecondsPerToken;
    counters_.together = std::max(counters_.together.load(), ++counters_.computing);
    if (micros > 0) std::this_thread::sleep_for(std::chrono::microseconds(micros));
    counters_.computing--;
    if (aborted_) throw std::runtime_error("aborted");
    maybeFail(Call::decode);
    if (counters_.failIn > 0 && --counters_.failIn == 0) throw std::runtime_error("the fake decoder was told to fail");
  }

  int reusedGraphs() const override { return reused_; }

  const float* logits(int row) const override {
    check(!rows_[row].empty(), "logits that were not wanted");
    return rows_[row].data();
  }

  bool samples() const override { return counters_.samples; }
  Drawn sampled(int row) const override {
    check(drawing_ && drawn_[row].token >= 0, "a token that was not drawn");
    return drawn_[row];
  }
  uint64_t copiedBytes() const override { return copiedBytes_; }

  void copy(int from, int to) override {
    check(from != to, "a copy of a slot onto itself");
    spoilOnFailure(Call::copy, to);
    cells_[to] = cells_[from];
  }

  void trim(int slot, int length) override {
    const int have = static_cast<int>(cells_[slot].size());
    check(length <= have, "a trim that would grow");
    check(canTrim_ || length == 0 || length == have, "a recurrent state cannot be taken back");
    spoilOnFailure(Call::trim, slot);
    cells_[slot].resize(length);
  }

  void clear() override {
    check(!asleep_, "clear while asleep");
    maybeFail(Call::clear);
    for (auto& cells : cells_) cells.clear();
  }

  void loadAdapter(const std::string& path) override {
    beside_ = {};
    maybeFail(Call::load);
    Adapter loaded;
    loaded.path = path;
    if (weights_) loaded.read();
    beside_ = std::move(loaded);
  }
  void swapAdapter() override {
    maybeFail(Call::swap);
    std::swap(adapter_, beside_);
  }
  void dropAdapter() noexcept override { beside_ = {}; }

  void sleep(bool weights) override {
    if (!asleep_) counters_.asleep++;
    asleep_ = true;
    maybeFail(Call::sleep);
    std::vector<std::vector<Cell>>().swap(cells_);
    if (!weights) return;
    weights_ = false;
    adapter_.number = nullptr;
  }
  void wake(int slots) override {
    check(slots >= 1 && slots <= slots_, "a number of slots");
    maybeFail(Call::wake);
    adapter_.read();
    std::vector<std::vector<Cell>>(slots).swap(cells_);
    drawing_ = counters_.samples;
    weights_ = true;
    if (asleep_) counters_.asleep--;
    asleep_ = false;
  }
  void warmUp() override {
    check(!asleep_, "a warm-up while asleep");
    for (auto& cells : cells_) cells.assign(3, {kVocabulary - 1, 99});
    maybeFail(Call::warm);
    for (auto& cells : cells_) cells.clear();
  }
  void setThreads(int threads) override {
    check(!asleep_, "threads while asleep");
    counters_.threads = threads;
  }
  void abort() override { aborted_ = true; }

 private:
  struct Cell {
    Token token;
    uint64_t adapter;
  };

  struct Adapter {
    std::string path;
    /** As read from the path; null for none, and while the weights are not there. */
    std::unique_ptr<uint64_t> number;

    void read() {
      if (path == "broken") throw std::runtime_error("the adapter is broken");
      if (!path.empty() && !number) number = std::make_unique<uint64_t>(std::stoull(path));
    }
  };

  /** A graph is reused where the batch has the slots and the number of outputs of the one before; pooled, their numbers. */
  void noteShape(const Batch& batch) {
    std::vector<int> shape(batch.slots);
    if (counters_.pooled) {
      const int sequences = static_cast<int>(std::set<int>(shape.begin(), shape.end()).size());
      shape = {batch.size(), sequences};
    }
    shape.push_back(static_cast<int>(std::count(batch.wanted.begin(), batch.wanted.end(), 1)));
    reused_ = shape == shape_ ? 1 : 0;
    if (shape.back() > 0) {
      counters_.withRows++;
      counters_.replayed += shape == shapeWithRows_ ? 1 : 0;
      shapeWithRows_ = shape;
    }
    shape_ = std::move(shape);
  }

  /** Rows of logits are copied, or of what was drawn: 12 bytes each. */
  void notePlace(const Batch& batch) {
    const auto wanted = static_cast<uint64_t>(std::count(batch.wanted.begin(), batch.wanted.end(), 1));
    check(batch.draws.empty() || (counters_.samples && wanted > 0), "draws that were not promised");
    check(batch.draws.empty() || static_cast<int>(batch.draws.size()) == batch.size(), "draws without a row");
    copiedBytes_ = wanted * (batch.draws.empty() ? kVocabulary * sizeof(float) : 12);
    if (wanted == 0) return;
    if (drawing_ == batch.draws.empty()) counters_.changes++;
    drawing_ = !batch.draws.empty();
    counters_.drawn += drawing_ ? 1 : 0;
  }

  static void check(bool fine, const char* what) {
    if (!fine) {
      std::fprintf(stderr, "FAILED: %s\n", what);
      std::abort();
    }
  }

  void maybeFail(Call call) {
    const int lane = counters_.failingLane;
    if (counters_.failing == call && (lane < 0 || lane == lane_) && counters_.failures > 0 && counters_.failures-- > 0) {
      if (counters_.lacksMemory) throw OutOfMemory("no memory, as told");
      throw std::runtime_error("told to fail");
    }
    if (counters_.failingToo == call && counters_.failingTooLane == lane_ && counters_.failingTooSkips-- <= 0) {
      throw std::runtime_error("told to fail too");
    }
  }

  /** After a failed change the contents of a slot are arbitrary. */
  void spoilOnFailure(Call call, int slot) {
    try {
      maybeFail(call);
    } catch (...) {
      cells_[slot].assign(3, {kVocabulary - 1, 99});
      throw;
    }
  }

  const int slots_;
  const int context_;
  const bool canTrim_;
  const int lane_;
  FakeCounters& counters_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<std::vector<float>> rows_;
  std::vector<Drawn> drawn_;
  /** The last batch with rows had draws. A new context begins as if it had, where it can draw. */
  bool drawing_;
  uint64_t copiedBytes_ = 0;
  std::vector<int> shape_;
  std::vector<int> shapeWithRows_;
  int reused_ = 0;
  Adapter adapter_;
  Adapter beside_;
  bool weights_ = true;
  bool asleep_ = false;
  std::atomic<bool> aborted_{false};
};

}  // namespace hone
