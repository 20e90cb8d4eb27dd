#include "own_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "own_decoder.h"

namespace hone {
namespace {

constexpr int kSlots = 4;
constexpr int kCells = 256;
/** In three pieces; no number of rows that passes of steady shapes have: some rows only fill these. */
constexpr int kPrompt = 45;
constexpr int kScored = 16;
/** Two thirds of the prompt. */
constexpr int kKept = 32;
constexpr int kAppended = 20;
constexpr int kSecondPrompt = 12;
constexpr int kSteps = 20;
/** Rows of logits of a pass at most, besides those of the sequences. */
constexpr int kScoreRows = 32;
constexpr int kStepsAfterMove = 6;
/** Tokens of a row that are compared. */
constexpr int kLikeliest = 64;

/** A player of the trial, and what it has evaluated. */
struct Player {
  std::unique_ptr<ModelDecoder> decoder;
  /** A batch is played as two. */
  bool halves = false;
};

class Trial {
 public:
  Trial(Player own, Player llama, Player other) : players_{std::move(own), std::move(llama), std::move(other)} {}

  OwnTrial play() {
    soil();
    Batch batch;
    for (int i = 0; i < kPrompt; i++) {
      append(batch, 0, i >= kPrompt - kScored);
      if (i == kPrompt / 3 || i == kPrompt / 2 || i == kPrompt - 1) evaluate("prompt", batch);
    }
    for (const int slot : {1, 2}) copy(0, slot);
    trim(1, kKept);
    for (const int slot : {0, 1, 2}) append(batch, slot, true);
    evaluate("fork", batch);
    for (int i = 0; i < kSecondPrompt; i++) append(batch, 2, false);
    evaluate("fork", batch);
    append(batch, 0, true);
    for (int i = 0; i < kAppended; i++) append(batch, 1, i == kAppended - 1);
    append(batch, 2, true);
    for (int i = 0; i < kSecondPrompt; i++) append(batch, 3, i == kSecondPrompt - 1);
    evaluate("mixed", batch);
    append(batch, 0, true);
    evaluate("alone", batch);
    for (int step = 0; step < kSteps; step++) {
      for (int slot = 0; slot < kSlots; slot++) append(batch, slot, true);
      evaluate("decode", batch);
    }
    copy(3, 1);
    trim(3, 0);
    for (int step = 0; step < kStepsAfterMove; step++) {
      for (const int slot : {0, 1, 2}) append(batch, slot, true);
      evaluate("move", batch);
    }
    OwnTrial trial;
    trial.refusal = refusal();
    for (const int slot : {0, 1, 2}) append(batch, slot, true);
    evaluate("after", batch);
    for (TrialKind& kind : kinds_) {
      kind.own.mean /= kind.rows;
      kind.llama.mean /= kind.rows;
    }
    trial.kinds = std::move(kinds_);
    return trial;
  }

 private:
  /** The next token of a slot: any, and none again soon. */
  void append(Batch& batch, int slot, bool wanted) {
    const auto token = static_cast<Token>((drawn_ = drawn_ * 1103515245 + 12345) >> 16) % players_[0].decoder->vocabularySize();
    batch.add(token, lengths_[slot]++, slot, wanted);
  }

  /** What other sequences left in the slots, which is nothing to those that follow. */
  void soil() {
    Decoder& own = *players_[0].decoder;
    Batch batch;
    for (int slot = 0; slot < kSlots; slot++) {
      for (int i = 0; i < kKept; i++) append(batch, slot, false);
    }
    own.decode(batch);
    for (int slot = 0; slot < kSlots; slot++) own.trim(slot, 0);
    lengths_.fill(0);
  }

  /** A prompt with the logits of all its rows, in the slot that is empty now. */
  std::string refusal() {
    Decoder& own = *players_[0].decoder;
    Batch batch;
    for (int i = 0; i < kCells; i++) append(batch, kSlots - 1, true);
    lengths_[kSlots - 1] = 0;
    std::string why;
    try {
      own.decode(batch);
    } catch (const std::runtime_error& error) {
      why = error.what();
    }
    own.trim(kSlots - 1, 0);
    return why;
  }

  void copy(int from, int to) {
    for (Player& player : players_) player.decoder->copy(from, to);
    lengths_[to] = lengths_[from];
  }

  void trim(int slot, int length) {
    for (Player& player : players_) player.decoder->trim(slot, length);
    lengths_[slot] = length;
  }

  using Rows = std::vector<std::vector<float>>;

  /** Logits of the wanted rows. */
  static Rows rowsOf(Player& player, const Batch& batch) {
    const auto vocabulary = static_cast<size_t>(player.decoder->vocabularySize());
    Rows rows(batch.tokens.size());
    // The second half of each slot's tokens after the first; single ones by turns.
    std::vector<int> parts(batch.tokens.size(), 0);
    for (int row = 0; row < batch.size() && player.halves;) {
      int end = row;
      while (end < batch.size() && batch.slots[end] == batch.slots[row]) end++;
      const int half = end - row == 1 ? (batch.slots[row] % 2 == 0 ? end : row) : (row + end) / 2;
      for (; row < end; row++) parts[row] = row < half ? 0 : 1;
    }
    for (const int part : {0, 1}) {
      Batch piece;
      std::vector<int> of;
      for (int row = 0; row < batch.size(); row++) {
        if (parts[row] != part) continue;
        piece.add(batch.tokens[row], batch.positions[row], batch.slots[row], batch.wanted[row] != 0);
        of.push_back(row);
      }
      if (of.empty()) continue;
      player.decoder->decode(piece);
      for (size_t i = 0; i < of.size(); i++) {
        if (!piece.wanted[i]) continue;
        const float* logits = player.decoder->logits(static_cast<int>(i));
        rows[of[i]].assign(logits, logits + vocabulary);
      }
    }
    return rows;
  }

  static double normaliser(const std::vector<float>& logits) {
    const double peak = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - peak);
    return peak + std::log(sum);
  }

  static void add(Difference& difference, const std::vector<float>& logits, const std::vector<float>& expected) {
    std::vector<int> tokens(expected.size());
    std::iota(tokens.begin(), tokens.end(), 0);
    const size_t count = std::min(tokens.size(), static_cast<size_t>(kLikeliest));
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end(),
                      [&](int a, int b) { return expected[a] > expected[b]; });
    const double shift = normaliser(logits) - normaliser(expected);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
      double gap = std::abs(logits[tokens[i]] - expected[tokens[i]] - shift);
      if (std::isnan(gap)) gap = INFINITY;
      sum += gap;
      difference.most = std::max(difference.most, gap);
    }
    difference.mean += sum / static_cast<double>(count);
  }

  void evaluate(const char* name, Batch& batch) {
    std::array<Rows, 3> rows;
    for (size_t i = 0; i < players_.size(); i++) rows[i] = rowsOf(players_[i], batch);
    if (kinds_.empty() || kinds_.back().name != name) kinds_.push_back({name, 0, {}, {}});
    TrialKind& kind = kinds_.back();
    for (size_t row = 0; row < batch.tokens.size(); row++) {
      if (!batch.wanted[row]) continue;
      const std::vector<float>& expected = rows[1][row];
      kind.rows++;
      add(kind.own, rows[0][row], expected);
      add(kind.llama, rows[2][row], expected);
    }
    batch.clear();
  }

  std::array<Player, 3> players_;
  std::array<int, kSlots> lengths_{};
  uint32_t drawn_ = 1;
  std::vector<TrialKind> kinds_;
};

}  // namespace

OwnTrial tryOwn(const TrialSettings& settings) {
  LlamaSettings llama;
  llama.useGpu = settings.useGpu;
  llama.threads = settings.threads;
  llama.sequences = kSlots;
  llama.contextPerSequence = kCells;
  llama.batch = llama.ubatch = kCells;
  llama.outputs = kSlots + kScoreRows;
  const auto weights = std::make_shared<Weights>(settings.model, settings.useGpu, true);
  auto first = std::make_unique<LlamaDecoder>(weights, llama);
  auto other = std::make_unique<LlamaDecoder>(weights, llama);
  const auto file = std::make_shared<OwnWeightsFile>(settings.model, settings.useGpu, settings.steady);
  auto own = std::make_unique<OwnDecoder>(file, first->info(), llama, settings.steady);
  if (!settings.adapter.empty()) {
    for (ModelDecoder* decoder : std::array<ModelDecoder*, 3>{own.get(), first.get(), other.get()}) {
      decoder->loadAdapter(settings.adapter);
      decoder->swapAdapter();
      decoder->dropAdapter();
    }
  }
  return Trial({std::move(own)}, {std::move(first)}, {std::move(other), true}).play();
}

}  // namespace hone
