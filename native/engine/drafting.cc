// The guesses of a batch: how many, their rows, and which of them were right.
#include <algorithm>

#include "scheduler.h"

namespace hone {

bool Scheduler::drafts() const { return settings_.draft != 0 && !settings_.steady && decoder_->canTrim(); }

/**
 * The least number of guesses, right or wrong: llama.cpp computes a row alone by other sums than several rows, so exact
 * log-probabilities are those of several rows.
 */
int Scheduler::leastDraft() const { return settings_.paired && !settings_.steady && decoder_->canTrim() ? 1 : 0; }

void Scheduler::learn(Sequence& sequence) {
  if (sequence.learnt == 0) {
    // A prompt need not be learnt from each member of a group.
    for (const auto& [id, other] : sequences_) {
      if (other.group != sequence.group || other.learnt <= sequence.learnt) continue;
      const int known = commonPrefix(other.tokens, sequence.tokens, static_cast<int>(other.learnt));
      sequence.learnt = std::max(sequence.learnt, static_cast<size_t>(known));
    }
  }
  drafter_->learn(sequence.tokens, sequence.learnt);
  sequence.learnt = sequence.tokens.size();
}

/** Guessed tokens that can be sampled in this batch: the last one of a turn has none after it. */
static int roomFor(const TurnRequest& request, const TurnResult& result) {
  return request.maxTokens - static_cast<int>(result.tokens.size()) - 1;
}

/**
 * Number of guesses of each sequence that decodes, the same for all: llama.cpp makes one pass for neighbours with equally
 * many tokens. `takes` are the numbers of tokens without guesses.
 */
int Scheduler::chooseDraft(const std::vector<int>& takes) {
  const int least = leastDraft();
  int most = drafts() ? (settings_.draft > 0 ? settings_.draft : kMostGuesses) : least;
  int decoding = 0, others = 0;
  for (size_t i = 0; i < running_.size(); i++) {
    if (running_[i]->scoring()) return 0;
    (running_[i]->decodes ? decoding : others) += takes[i];
  }
  if (most == 0 || decoding == 0) return 0;
  const int count = static_cast<int>(running_.size());
  const int outputs = settings_.outputs - (settings_.slots - slots_.count()) - count;
  const int span = settings_.pooled ? count : running_.back()->slot - running_.front()->slot + 1;
  most = std::min({most, outputs / decoding, (settings_.batch - others) / span - 1, settings_.ubatch / span - 1});
  if (most <= 0) return 0;
  if (!drafts()) return std::min(least, most);
  for (Sequence* sequence : running_) {
    if (!sequence->decodes) continue;
    learn(*sequence);
    drafter_->guess(sequence->tokens, most, sequence->guesses);
  }
  if (settings_.draft > 0) return most;
  std::vector<DraftChoice> choices;
  for (int guesses = least; guesses <= most; guesses++) {
    choices.push_back({expectedTokens(guesses), passesWith(guesses)});
  }
  return least + static_cast<int>(draftLength_.choose(choices, others == 0));
}

double Scheduler::expectedTokens(int guesses) const {
  double tokens = 0;
  for (const Sequence* sequence : running_) {
    if (!sequence->decodes) continue;
    const int room = roomFor(sequence->turn->request, sequence->turn->result);
    double right = 1;
    tokens += 1;
    for (int guess = 0; guess < std::min(guesses, room); guess++) {
      right *= drafter_->chance(sequence->guesses[guess].kind);
      tokens += right;
    }
  }
  return tokens;
}

/** Rows of the passes if every running sequence had so many guesses. */
std::vector<int> Scheduler::passesWith(int guesses) const {
  const int each = 1 + guesses;
  if (settings_.pooled) return {static_cast<int>(running_.size()) * each};
  std::vector<int> passes;
  int last = -1;
  for (const Sequence* sequence : running_) {
    const int gap = sequence->slot - last - 1;
    if (passes.empty() || gap * each > settings_.fillGap) {
      passes.push_back(each);
    } else {
      passes.back() += (gap + 1) * each;
    }
    last = sequence->slot;
  }
  return passes;
}

/** Adds so many guesses after a sequence's last token. */
void Scheduler::addGuesses(Sequence& sequence, int guesses) {
  const int position = static_cast<int>(slots_.cells(sequence.slot).size());
  guesses = std::min(guesses, settings_.contextPerSlot - position);
  if (guesses <= 0) return;
  for (int i = 0; i < guesses; i++) {
    const bool known = i < static_cast<int>(sequence.guesses.size()) && sequence.guesses[i].token >= 0;
    const Token token = known ? sequence.guesses[i].token : sequence.tokens.back();
    const int row = batch_.add(token, position + i, sequence.slot, true);
    rows_.push_back({&sequence, row, -1, i + 1});
  }
  stats_.drafted += static_cast<uint64_t>(guesses);
  drafted_.push_back(sequence.slot);
}

/** Keeps the KV of the guesses that were right and takes back that of the others. */
void Scheduler::keepRightGuesses() {
  for (const Row& row : rows_) {
    if (!row.reached) continue;
    Sequence& sequence = *row.sequence;
    if (row.ahead > 0) {
      slots_.append(sequence.slot, batch_.tokens[row.row]);
      stats_.accepted++;
    }
    const size_t next = static_cast<size_t>(row.ahead);
    if (drafter_ && next < sequence.guesses.size()) {
      drafter_->note(sequence.guesses[next], row.drawn.token == sequence.guesses[next].token);
    }
  }
  for (int slot : drafted_) slots_.restore(slot);
}

}  // namespace hone
