// Which passes OwnDecoder makes of a batch, and those of its warm-up.
#include <algorithm>

#include "own_decoder.h"
#include "shape.h"
#include "warm_up.h"

namespace hone {
namespace {

/** On a GPU windows double from here on, so that graphs are few: CUDA skips blocks of cells that the mask hides. */
constexpr int kLeastWindow = 1024;
/** Tokens of a slot in a grid at most, and queries of a grid: its mask has a row for each. */
constexpr int kMostMixed = 128;
constexpr int kMostQueries = 2048;
/** Rows of a prompt with steady shapes: powers of two from here on. */
constexpr int kLeastPrompt = 64;
/** A token id that every vocabulary has. */
constexpr Token kAnyToken = 0;

}  // namespace

int OwnDecoder::windowOf(int cells) const {
  int window = roundUp(cells, kCellStep);
  if (settings_.useGpu) {
    for (window = kLeastWindow; window < cells;) window *= 2;
  }
  return std::min(window, memory_.cells);
}

int OwnDecoder::mixedOf(int slots) { return std::clamp(kMostQueries / slots, 2, kMostMixed); }

/**
 * A batch of one pass: a token of each slot from the first on, and of some up to `mixedTokens`, of which the last may be wanted. False
 * where it is another one.
 */
bool OwnDecoder::takeGrid(const Batch& batch, Pass& pass) const {
  int window = 0;
  int first = 0;
  for (int row = 0; row < batch.size(); row++) {
    const int slot = batch.slots[row];
    const bool last = row + 1 == batch.size() || batch.slots[row + 1] != slot;
    if (slot != static_cast<int>(pass.wanted.size()) || (batch.wanted[row] && !last)) return false;
    pass.rows.push_back({row, slot, batch.positions[row]});
    if (!last) continue;
    if (row - first >= mixedTokens()) return false;
    first = row + 1;
    pass.wanted.push_back(row);
    window = std::max(window, windowOf(batch.positions[row] + 1));
  }
  const int slots = static_cast<int>(pass.wanted.size());
  if (slots == 1 || slots == batch.size() || batch.size() > settings_.ubatch) return false;
  int rows = slots;
  while (rows < batch.size()) rows *= 2;
  pass.reads = std::any_of(batch.wanted.begin(), batch.wanted.end(), [](int8_t wanted) { return wanted != 0; });
  // Where nothing is read, that one of both which is there already.
  pass.shape.draws = pass.shape.draws || (draws_ && !pass.reads);
  pass.shape.packed = std::min(rows, settings_.ubatch);
  pass.shape.outputs = slots;
  pass.shape.spans = {{0, slots, mixedTokens(), window}};
  fill(pass, pass.shape.packed);
  return true;
}

/** Rows that only fill a shape write where no sequence reads. */
void OwnDecoder::fill(Pass& pass, int rows) const {
  while (static_cast<int>(pass.rows.size()) < rows) pass.rows.push_back({-1, memory_.slots - 1, 0});
}

/** The pass that begins at a row of the batch, which is moved to the next one's. */
OwnDecoder::Pass OwnDecoder::takePass(const Batch& batch, int& row) const {
  Pass pass;
  pass.shape.adapter = adapter_.factors != nullptr;
  pass.shape.draws = !batch.draws.empty();
  if (Pass grid = pass; steady_ && row == 0 && takeGrid(batch, grid)) {
    row = batch.size();
    return grid;
  }
  std::vector<Span>& spans = pass.shape.spans;
  while (row < batch.size()) {
    const int slot = batch.slots[row];
    int end = row;
    while (end < batch.size() && batch.slots[end] == slot) end++;
    const int room = settings_.ubatch - static_cast<int>(pass.rows.size());
    const int tokens = std::min(end - row, room);
    const bool fits = !spans.empty() && spans.back().tokens == tokens && spans.back().firstSlot + spans.back().slots == slot;
    if (tokens == 0 || (!fits && spans.size() == kMostSpans)) break;
    const int window = windowOf(batch.positions[row + tokens - 1] + 1);
    if (fits) {
      spans.back().slots++;
      spans.back().window = std::max(spans.back().window, window);
    } else {
      spans.push_back({slot, 1, tokens, window});
    }
    for (int i = 0; i < tokens; i++, row++) {
      if (batch.wanted[row]) pass.wanted.push_back(static_cast<int>(pass.rows.size()));
      pass.rows.push_back({row, slot, batch.positions[row]});
    }
  }
  finish(pass);
  return pass;
}

/**
 * With steady shapes a prompt has one of few numbers of rows: those at its end only fill it. It is evaluated in `staging` where no
 * logits are wanted, so that its graph is the same for all slots.
 */
void OwnDecoder::finish(Pass& pass) const {
  std::vector<Span>& spans = pass.shape.spans;
  pass.shape.outputs = static_cast<int>(pass.wanted.size());
  pass.reads = !pass.wanted.empty();
  if (!steady_ || spans.size() != 1 || spans[0].slots != 1 || spans[0].tokens == 1) return;
  int rows = shapeOf(spans[0].tokens);
  if (!pass.reads) {
    pass.staged = spans[0].firstSlot;
    spans[0].firstSlot = staging();
    for (PassRow& row : pass.rows) row.slot = staging();
    for (rows = kLeastPrompt; rows < spans[0].tokens;) rows *= 2;
  }
  spans[0].tokens = std::max(spans[0].tokens, std::min(rows, settings_.ubatch));
  fill(pass, spans[0].tokens);
}

// ---- the warm-up

/** A CPU compiles nothing. */
void OwnDecoder::warmUp() {
  if (!settings_.useGpu) return;
  bool& warm = warm_[adapter_.factors ? 1 : 0];
  if (warm) return;
  const int outputs = settings_.outputs - settings_.sequences + slots_;
  evaluateShapes(*this, {slots_, settings_.contextPerSequence, std::min(settings_.batch, settings_.ubatch), outputs});
  const std::string library = lib_.ggml_backend_reg_name(lib_.ggml_backend_dev_backend_reg(deviceFor(true)));
  if (steady_ && library == "CUDA") capture();
  warm = true;
}

/** Evaluates passes of all windows with all slots twice: then CUDA captures one as a graph, which it replays from then on. */
void OwnDecoder::capture() {
  const auto twice = [&](Batch batch) {
    if (draws_ && batch.wanted.back()) batch.draws.resize(batch.tokens.size());
    for (int i = 0; i < 2; i++) decode(batch);
  };
  const int most = std::min(settings_.batch, settings_.ubatch);
  for (int window = 0; window < memory_.cells;) {
    window = windowOf(window + 1);
    for (int rows = slots_; rows <= most; rows *= 2) {
      Batch batch;
      for (int slot = 0, left = rows - slots_; slot < slots_; slot++) {
        const int tokens = 1 + std::min(left, mixedTokens() - 1);
        left -= tokens - 1;
        for (int i = 0; i < tokens; i++) batch.add(kAnyToken, window - tokens + i, slot, i == tokens - 1);
      }
      if (batch.size() == rows) twice(std::move(batch));
    }
    for (const int rows : {most, most / 2}) {
      Batch batch;
      for (int i = 0; i < std::min(rows, window); i++) batch.add(kAnyToken, window - std::min(rows, window) + i, 0, false);
      twice(std::move(batch));
    }
  }
  clear();
}

}  // namespace hone
