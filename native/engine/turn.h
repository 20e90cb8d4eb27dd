// Requests to the scheduler and their results. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint.h"
#include "decoder.h"
#include "failure.h"
#include "sampling.h"

namespace hone {

using TurnId = uint64_t;
/** The owner of sequences (a JavaScript environment); its sequences can be closed together. */
using OwnerId = uint64_t;
/** Sequences opened with one prompt. */
using GroupId = uint64_t;

enum class Stop { token, length, context, cancelled, deadline };

/** A sampled token, as soon as it is there. */
struct Sampled {
  Token token = -1;
  float logprob = 0;
  /** Only with `TurnRequest::likeliest`: of the token and of the likeliest ones, under the softmax of the logits. */
  float own = 0;
  std::vector<Likely> likeliest;
};

struct TurnRequest {
  std::vector<Token> append;
  /** At least 1. */
  int maxTokens = 1;
  SamplingParams sampling;
  std::vector<Token> stop;
  /** Of this turn alone; null: every token may come. */
  std::shared_ptr<Constraint> constraint;
  /** With a constraint: tokens are drawn from the restricted distribution, and what could come is added here. */
  std::shared_ptr<AllowedSets> allowed;
  /** Milliseconds of the batches that evaluate the turn (Pace::counted); 0: no limit. */
  int limitMs = 0;
  /** Hears each token, on the decode thread, before the turn's end is told. Quick, as TurnDone. */
  std::function<void(Sampled)> sampled;
  /** So many likeliest tokens are reported with each; below 0 not even its own log-probability under the softmax. */
  int likeliest = -1;
};

struct TurnResult {
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  Stop stop = Stop::cancelled;
  /** Tokens of the sequence after the turn. */
  int length = 0;
  /** Of their ids, those in the sequence's cells read from there: see `digestOf`. */
  uint32_t digest = 0;
  /** Some of its cells were computed with another adapter than was in use. */
  bool foreign = false;
  /** By which the turn was sampled. */
  SamplingParams sampling;
  Draws draws;
  /** Milliseconds from the request until the turn had a slot, or until its end when it never had one. */
  double waitedMs = 0;
  /** Of its time limit. */
  double usedMs = 0;
  /** The turn failed, and why. Tokens sampled until then are part of the sequence. */
  Failure error;
};

struct ScoreResult {
  std::vector<float> logprobs;
  /** The likeliest tokens of each position, one position behind the other: so many as were asked for. */
  std::vector<Likely> likeliest;
  bool cancelled = false;
  Failure error;
};

// Called once each, on the decode thread (or on the one that stops the scheduler). They should be quick: the next batch
// waits for them.
using TurnDone = std::function<void(TurnResult)>;
using ScoreDone = std::function<void(ScoreResult)>;
using CommandDone = std::function<void(const Failure& failure)>;

/** An exception of a callback affects its owner only: all other sequences continue. */
template <typename Callback, typename... Arguments>
void tell(const Callback& callback, Arguments&&... arguments) {
  try {
    callback(std::forward<Arguments>(arguments)...);
  } catch (...) {
  }
}

/** The counters are described in src/core/engine/engine.ts. */
struct Stats {
  uint64_t decoded = 0;
  uint64_t prefilled = 0;
  uint64_t reused = 0;
  uint64_t batches = 0;
  uint64_t passes = 0;
  uint64_t promptPasses = 0;
  uint64_t paddingRows = 0;
  uint64_t ownedCells = 0;
  uint64_t graphsReused = 0;
  uint64_t forks = 0;
  uint64_t moves = 0;
  uint64_t evicted = 0;
  uint64_t drawnOnDevice = 0;
  uint64_t copiedBytes = 0;
  double decodeSeconds = 0;
  double samplingSeconds = 0;
  double schedulingSeconds = 0;
  double waitingSeconds = 0;
  /** CPU threads in use. */
  int threads = 0;
  int slots = 0;
  int open = 0;
  int running = 0;
  int queued = 0;

  /**
   * Calls `visit(group, name, member)` for every counter: its position in JavaScript's object (group "" is the top
   * level) and a pointer to the member. Times of several lanes ("seconds") are shown as means, all others as sums.
   */
  template <typename Visit>
  static void each(Visit visit) {
    visit("", "decoded", &Stats::decoded);
    visit("", "prefilled", &Stats::prefilled);
    visit("", "reused", &Stats::reused);
    visit("", "batches", &Stats::batches);
    visit("", "passes", &Stats::passes);
    visit("", "promptPasses", &Stats::promptPasses);
    visit("", "paddingRows", &Stats::paddingRows);
    visit("", "ownedCells", &Stats::ownedCells);
    visit("", "graphsReused", &Stats::graphsReused);
    visit("", "forks", &Stats::forks);
    visit("", "moves", &Stats::moves);
    visit("", "evicted", &Stats::evicted);
    visit("", "drawnOnDevice", &Stats::drawnOnDevice);
    visit("", "copiedBytes", &Stats::copiedBytes);
    visit("", "threads", &Stats::threads);
    visit("seconds", "decode", &Stats::decodeSeconds);
    visit("seconds", "sampling", &Stats::samplingSeconds);
    visit("seconds", "scheduling", &Stats::schedulingSeconds);
    visit("seconds", "waiting", &Stats::waitingSeconds);
    visit("sequences", "slots", &Stats::slots);
    visit("sequences", "open", &Stats::open);
    visit("sequences", "running", &Stats::running);
    visit("sequences", "queued", &Stats::queued);
  }
};

}  // namespace hone
