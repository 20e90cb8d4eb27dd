// Records of a scheduler's sequences and their turns, used by its decode thread alone.
#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "slots.h"
#include "turn.h"

namespace hone {

using Clock = std::chrono::steady_clock;

/** A request and what it has so far. */
struct Turn {
  TurnId id = 0;
  TurnRequest request;
  TurnResult result;
  TurnDone done;
  Clock::time_point asked = Clock::now();
  /** Of its time limit. */
  Clock::duration used{};
  /** A score: nothing is sampled, the logprobs of given tokens from `from` on are collected. */
  ScoreDone scored;
  int from = 0;
  std::vector<float> scores;
  /** At each scored position so many of the likeliest tokens (`request.likeliest`), one position behind the other. */
  std::vector<Likely> likeliest;
};

enum class State { idle, queued, running };

struct Sequence {
  SequenceId id = 0;
  OwnerId owner = 0;
  GroupId group = 0;
  std::vector<Token> tokens;
  int slot = -1;
  /** The cells beyond which the next batch does not evaluate it, where others wait for a copy or may ask for one. */
  int copiedAt = std::numeric_limits<int>::max();
  /** It got its slot for this turn, whose prompt others may share. */
  bool placed = false;
  State state = State::idle;
  Clock::time_point restingSince;
  std::shared_ptr<Turn> turn;

  bool scoring() const { return turn && turn->scored; }
  void noteWait() {
    turn->result.waitedMs = std::chrono::duration<double, std::milli>(Clock::now() - turn->asked).count();
  }
  /** Cells that the turn needs at its end. */
  int target() const { return static_cast<int>(tokens.size()) - (scoring() ? 1 : 0); }
  /** Cells that may be copied: the token before the first requested logits must be evaluated. */
  int reusable() const { return scoring() ? turn->from - 1 : static_cast<int>(tokens.size()) - 1; }
};

/** A row of the batch whose logits are read. */
struct LogitRow {
  Sequence* sequence;
  int row;
  /** For a score: the token whose logprob is requested. */
  Token given = -1;
  Drawn drawn{};
  /** What the turn's listener is told beside the token, where it wants that. */
  float own = 0;
  std::vector<Likely> likeliest{};
  /** Its constraint failed. */
  Failure failure{};
};

}  // namespace hone
