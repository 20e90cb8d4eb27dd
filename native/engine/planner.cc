#include "planner.h"

#include <algorithm>

namespace hone {
namespace {

/** Where passes mix, a prompt with so many tokens left has a pass of its own. */
constexpr int kLongPrompt = 256;

}  // namespace

void Planner::plan(const std::vector<Sequence*>& running) {
  batch_.clear();
  rows_.clear();
  filled_.clear();
  evaluated_.clear();
  mixedTokens_ = 0;
  const auto scores = [](const Sequence* sequence) { return sequence->scoring(); };
  if (settings_.steady && decoder_.canTrim() && std::none_of(running.begin(), running.end(), scores)) {
    if (planPrompts(running)) return;
    if (decoder_.mixedTokens() == 0) return planTokens(running);
  }
  planMixed(running);
}

void Planner::took(Clock::duration time) {
  pace_.took(mixedTokens_, time);
  for (Sequence* sequence : evaluated_) sequence->turn->used += pace_.counted(time);
}

/**
 * A pass of prompts, but for their last tokens, whose logits are wanted; false where none has more than that, or where
 * it is the turn of those that have not. Without a pool it is one prompt's: those of several slots are in one pass only
 * where they are neighbours and equally long. Where passes mix, prompts that are alone or long have one.
 */
bool Planner::planPrompts(const std::vector<Sequence*>& running) {
  const int least = decoder_.mixedTokens() == 0 || running.size() == 1 ? 1 : kLongPrompt;
  const auto left = [&](const Sequence* sequence) {
    const int tokens = sequence->target() - static_cast<int>(slots_.cells(sequence->slot).size()) - 1;
    return tokens < least ? 0 : tokens;
  };
  const bool waiting = std::any_of(running.begin(), running.end(), [&](const Sequence* one) { return left(one) == 0; });
  int room = std::min({settings_.promptBatch, settings_.batch, settings_.ubatch});
  if (waiting && promptTokens_ >= settings_.promptBatch) room = 0;
  // In a pool prompts share passes, so what is left of one is no pass more.
  if (waiting && settings_.pooled) room = std::min(room, settings_.promptBatch - promptTokens_);
  const auto add = [&](Sequence* sequence) {
    const int take = std::min(left(sequence), room);
    if (take <= 0) return;
    addRows(*sequence, take);
    promptTokens_ += take;
    room -= take;
  };
  if (settings_.pooled) {
    for (Sequence* sequence : running) add(sequence);
  } else {
    Sequence* first = nullptr;
    for (Sequence* sequence : running) {
      if (left(sequence) > 0 && (!first || sequence->turn->asked < first->turn->asked)) first = sequence;
    }
    if (first) add(first);
  }
  if (batch_.size() > 0) return true;
  promptTokens_ = 0;
  return false;
}

/** One token of every running sequence, and padding: passes of few shapes. */
void Planner::planTokens(const std::vector<Sequence*>& running) {
  const int steady = steadySlots(running);
  const int shape = pooledRows(running);
  int next = 0;
  for (Sequence* sequence : running) {
    fillGap(next, sequence->slot);
    addRows(*sequence, 1);
    batch_.wanted.back() = 1;
    next = sequence->slot + 1;
  }
  if (settings_.pooled) return pad(shape);
  fillGap(next, steady);
}

/** Prompts and single tokens together: the fewest passes where a graph costs nothing, and where positions are scored. */
void Planner::planMixed(const std::vector<Sequence*>& running) {
  const int steady = steadySlots(running);
  const int shape = pooledRows(running);
  const int alone = std::max(static_cast<int>(running.size()), steady);
  int prompt = promptRoom(shape, alone);
  int outputs = settings_.outputs - (settings_.slots - slots_.count()) - alone;
  std::vector<int> takes;
  const int room = prompt;
  for (const Sequence* sequence : running) takes.push_back(takeOf(*sequence, prompt, outputs));
  mixedTokens_ = room - prompt;
  int last = steady > 0 ? -1 : running.front()->slot - 1;
  for (size_t i = 0; i < running.size(); i++) {
    Sequence& sequence = *running[i];
    if (takes[i] == 0) continue;
    fillGap(last + 1, sequence.slot);
    addRows(sequence, takes[i]);
    last = sequence.slot;
  }
  if (settings_.pooled) return pad(shape);
  fillGap(last + 1, steady);
}

/**
 * Prompt tokens beside a token of every slot; where a batch is one pass, beside the rows of `shape` in a pool, or `alone`. Fewer where a
 * pass takes long, unless shapes are kept: a GPU that has compiled a kernel meanwhile is not slow.
 */
int Planner::promptRoom(int shape, int alone) const {
  const int pass = std::min(settings_.batch, settings_.ubatch);
  const int room = settings_.pooled ? pass - shape : decoder_.mixedTokens() > 0 ? pass - alone : settings_.batch - settings_.slots;
  return std::max(1, std::min(settings_.steady ? settings_.promptBatch : pace_.tokens(), room));
}

/** Number of a sequence's tokens in this batch; reduces the remaining room for prompts and score rows. */
int Planner::takeOf(const Sequence& sequence, int& prompt, int& outputs) const {
  const int cells = static_cast<int>(slots_.cells(sequence.slot).size());
  int take = std::min(sequence.target(), sequence.copiedAt) - cells;
  take = std::min(take, 1 + prompt);
  if (const int most = decoder_.mixedTokens(); most > 0 && !sequence.scoring()) take = std::min(take, most);
  if (sequence.scoring()) {
    // Rows before `from - 1` are evaluated without logits.
    const int silent = std::max(0, sequence.turn->from - 1 - cells);
    take = std::min(take, silent + outputs);
    outputs -= std::max(0, take - silent);
  }
  prompt -= std::max(0, take - 1);
  return take;
}

void Planner::addRows(Sequence& sequence, int take) {
  Turn& turn = *sequence.turn;
  evaluated_.push_back(&sequence);
  if (sequence.scoring() || take > 1 || turn.result.tokens.empty()) stats_.prefilled += take;
  for (int i = 0; i < take; i++) {
    const int position = static_cast<int>(slots_.cells(sequence.slot).size());
    const Token token = sequence.tokens[position];
    const bool wanted = turn.scored ? position >= turn.from - 1 : position + 1 == sequence.target();
    const int row = batch_.add(token, position, sequence.slot, wanted);
    if (wanted) rows_.push_back({&sequence, row, turn.scored ? sequence.tokens[position + 1] : -1});
    slots_.append(sequence.slot, token);
  }
}

/** Number of slots, from the first, that get a token in every batch; 0 where shapes are not kept, or not by slots. */
int Planner::steadySlots(const std::vector<Sequence*>& running) {
  if (!settings_.steady || settings_.pooled || !decoder_.canTrim()) return 0;
  const int used = running.back()->slot + 1;
  const int held = outputShape_.of(used, leastSlots(running));
  if (held < used) shrunk_ = held;
  return std::min(std::max(held, shapeOf(used)), slots_.count());
}

/** Number of slots, from the first, that running sequences would need if they moved into free ones. */
int Planner::leastSlots(const std::vector<Sequence*>& running) const {
  size_t placed = 0;
  auto next = running.begin();
  int slot = 0;
  for (; placed < running.size(); slot++) {
    const bool runs = next != running.end() && (*next)->slot == slot;
    if (runs) ++next;
    if (runs || slots_.holder(slot) == 0) placed++;
  }
  return slot;
}

/** Number of sequences that a batch of a pool has, with padding where shapes are kept; 0 without a pool. */
int Planner::pooledRows(const std::vector<Sequence*>& running) {
  if (!settings_.pooled) return 0;
  const int count = static_cast<int>(running.size());
  return settings_.steady ? std::min(outputShape_.of(count), slots_.count()) : count;
}

bool Planner::fillable(int slot) const {
  return decoder_.canTrim() && !slots_.unknown(slot) &&
         static_cast<int>(slots_.cells(slot).size()) < settings_.contextPerSlot;
}

/** Evaluates a token for each slot in [from, to), if these are few or shapes are kept. */
void Planner::fillGap(int from, int to) {
  if (settings_.pooled || !decoder_.canTrim()) return;
  if (!settings_.steady) {
    if (to - from > settings_.fillGap) return;
    for (int slot = from; slot < to; slot++) {
      if (!fillable(slot)) return;
    }
  }
  for (int slot = from; slot < to; slot++) {
    if (fillable(slot)) fill(slot);
  }
}

void Planner::fill(int slot) {
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
  stats_.paddingRows++;
}

/**
 * Pooled KV: pads tokens, rows of logits and sequences to one of few shapes. A prompt's token changes the shape in any
 * case; then one of few sizes is as good as another number.
 */
void Planner::pad(int shape) {
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
    stats_.paddingRows++;
  }
}

}  // namespace hone
