// Assigns slots to sequences.
#include <algorithm>

#include "scheduler.h"

namespace hone {
namespace {

/**
 * A fork copies a slot's whole buffer, which takes as long as evaluating this many tokens. Members of a group always
 * fork.
 */
constexpr int kLeastFork = 16;

}  // namespace

/**
 * Starts the turns that can start, in request order. A sequence that has a slot need not wait for others to get one.
 */
void Scheduler::admit() {
  // Memory lacked twice: the next step ends these turns.
  if (!running_.empty() && running_.front()->slot < 0) return;
  for (Sequence* sequence : running_) stopForCopies(*sequence);
  bool full = false;
  for (auto next = queue_.begin(); next != queue_.end();) {
    const auto waiting = next++;
    if (waiting->sequence == 0) {
      if (waiting != queue_.begin() || !running_.empty()) return;
      if (!waiting->visit()) return;
      queue_.erase(waiting);
      continue;
    }
    Sequence& sequence = sequences_.at(waiting->sequence);
    if (asleep_) {
      endTurn(sequence, Stop::cancelled, "the engine sleeps; wake() it first");
      continue;
    }
    if (refusal_) {
      endTurn(sequence, Stop::cancelled, *refusal_);
      continue;
    }
    if (sequence.slot < 0) {
      full = full || !makeRoom();
      if (full || waitsForLeader(sequence)) continue;
    }
    try {
      start(sequence);
    } catch (const std::exception& exception) {
      endTurn(sequence, Stop::cancelled, Failure(exception));
      continue;
    }
    queue_.erase(waiting);
  }
}

/** Whether a slot is free, or another sequence can be made to give one up. */
bool Scheduler::makeRoom() {
  if (slots_.free() > 0) return true;
  // Sequences that wait for a command lose their KV to it anyway, and the command waits for those before it.
  bool behindCommand = false;
  for (const Waiting& waiting : queue_) {
    behindCommand = behindCommand || waiting.sequence == 0;
    if (!behindCommand || waiting.sequence == 0) continue;
    Sequence& sequence = sequences_.at(waiting.sequence);
    if (sequence.slot < 0) continue;
    slots_.release(sequence.slot);
    sequence.slot = -1;
    return true;
  }
  Sequence* longest = nullptr;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.state != State::idle || sequence.slot < 0) continue;
    if (!longest || sequence.restingSince < longest->restingSince) longest = &sequence;
  }
  if (!longest || Clock::now() < longest->restingSince + std::chrono::milliseconds(settings_.restMs)) return false;
  slots_.release(longest->slot);
  longest->slot = -1;
  stats_.evicted++;
  return true;
}

/**
 * Whether another sequence is evaluating a prefix that this one can fork when it is done. Where nothing can be taken back, the
 * other one stops at its end until the copy is made.
 */
bool Scheduler::waitsForLeader(const Sequence& sequence) {
  const int limit = sequence.reusable();
  int now = -1;
  for (Sequence* leader : running_) {
    const int cells = static_cast<int>(slots_.cells(leader->slot).size());
    const int later = commonPrefix(leader->tokens, sequence.tokens, std::min(limit, leader->target()));
    if (later <= cells) continue;
    if (now < 0) now = slots_.longestPrefix(sequence.tokens, limit);
    if (later - now < (leader->group == sequence.group ? 1 : kLeastFork)) continue;
    if (!decoder_->canTrim()) leader->copiedAt = std::min(leader->copiedAt, later);
    return true;
  }
  return false;
}

/**
 * Where nothing can be taken back, a prompt's last token has a batch after that of the others: sequences that ask meanwhile can
 * still copy these.
 */
void Scheduler::stopForCopies(Sequence& sequence) const {
  const bool stops = !decoder_->canTrim() && sequence.placed && !sequence.scoring();
  const int end = sequence.reusable();
  const bool before = static_cast<int>(slots_.cells(sequence.slot).size()) < end;
  sequence.copiedAt = stops && before ? end : std::numeric_limits<int>::max();
}

/** If it throws, the sequence has no slot and does not run. */
void Scheduler::start(Sequence& sequence) {
  running_.reserve(running_.size() + 1);
  sequence.placed = sequence.slot < 0;
  try {
    takeSlot(sequence);
  } catch (...) {
    if (sequence.slot >= 0) slots_.lose(sequence.slot);
    sequence.slot = -1;
    throw;
  }
  stopForCopies(sequence);
  sequence.noteWait();
  sequence.state = State::running;
  running_.push_back(&sequence);
}

/** A slot with as much of the sequence's KV as possible. */
void Scheduler::takeSlot(Sequence& sequence) {
  const int limit = sequence.reusable();
  if (sequence.slot >= 0) {
    const bool foreign = slots_.foreign(sequence.slot);
    const bool beyond = static_cast<int>(slots_.cells(sequence.slot).size()) > limit;
    if (foreign || beyond) slots_.trim(sequence.slot, !foreign && decoder_->canTrim() ? limit : 0);
    return;
  }
  const bool hasSiblings = std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
    return other.second.group == sequence.group && other.second.slot >= 0;
  });
  const Slots::Placed placed = slots_.place(sequence.id, sequence.tokens, limit, hasSiblings ? 1 : kLeastFork);
  sequence.slot = placed.slot;
  stats_.reused += placed.reused;
  if (placed.copied) stats_.forks++;
}

/** Invalidates all KV. Sequences keep their tokens and are evaluated again at their next turn. */
void Scheduler::dropSlots(bool clearDecoder) noexcept {
  for (auto& [id, sequence] : sequences_) sequence.slot = -1;
  slots_.forget(clearDecoder);
}

/** Time of the next change that needs no message, while nothing runs. */
Clock::time_point Scheduler::nextEvent() const {
  Clock::time_point event = Clock::time_point::max();
  if (turns_.empty()) return event;
  // A command is waiting for other lanes, and everything else for the command: no slot changes hands.
  if (!queue_.empty() && queue_.front().sequence == 0) return event;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state != State::idle || sequence.slot < 0) continue;
    event = std::min(event, sequence.restingSince + std::chrono::milliseconds(settings_.restMs));
  }
  return event;
}

}  // namespace hone
