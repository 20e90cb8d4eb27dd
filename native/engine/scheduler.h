// Continuous batching. One thread evaluates all open sequences of all callers together: the next token of those that
// are generating, and the prompts of those that begin. Any thread may call any member; results come by callback.
//
// A sequence gets a slot (its KV) at its first turn and keeps it until it is closed. When all slots are taken, turns
// wait in request order. A sequence that is idle between turns while others wait gives up its slot after a while and is
// evaluated again when it continues, so waiting always ends.
//
// Commands (adapter changes, sleep and wake: joint.h) wait in the same queue: turns requested before a command end
// first, turns requested after it begin later. KV of different adapters never mixes, because all KV is dropped in
// between.
//
// What a batch evaluates is the Planner's (planner.h), the tokens after it are the RowSampler's (row_sampler.h). The
// scheduler itself knows neither shapes of batches nor how tokens are drawn.
//
// No failure on the decode thread ends the process: a failure of the decoder, or a lack of memory, ends the affected
// turns with an error, and KV that became unknown is evaluated again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "decoder.h"
#include "planner.h"
#include "row_sampler.h"
#include "sequence.h"
#include "settings.h"
#include "slots.h"
#include "turn.h"
#include "turnstile.h"

namespace hone {

/** The error of turns and commands after the scheduler has ended. */
constexpr const char* kClosed = "the engine was closed";

/** An id for a sequence, a turn or a group, unique in this process. */
uint64_t newId();

class Scheduler {
 public:
  /** @param turnstile that its batches pass one at a time with those of others; null: they do not wait for any */
  Scheduler(std::unique_ptr<Decoder> decoder, const SchedulerSettings& settings,
            std::shared_ptr<Turnstile> turnstile = nullptr);
  /** Ends everything with "cancelled" and joins the decode thread. Must not be called from a callback. */
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /** `id` comes from newId(). The prompt is not empty, shorter than the context, and has valid ids. */
  void open(SequenceId id, OwnerId owner, GroupId group, std::vector<Token> prompt);
  /** One turn at a time. Unknown sequences and a second turn end with an error. */
  TurnId generate(SequenceId sequence, TurnRequest request, TurnDone done);
  /**
   * Log-probabilities of tokens[from ...], 1 ≤ from < tokens.size() ≤ context, and at each of these positions the `likeliest`
   * tokens.
   */
  TurnId score(OwnerId owner, std::vector<Token> tokens, int from, int likeliest, ScoreDone done);
  /** Ends a turn or a score soon. Does nothing when it has ended. */
  void cancel(TurnId turn);
  /** Its turn ends with "cancelled". */
  void close(SequenceId sequence);
  void closeAll(OwnerId owner);

  using Messages = std::list<std::function<void()>>;

  /** A command before it is queued, with all the memory that queueing needs. */
  struct Command {
    Messages message;
    std::function<void()> closed;
  };
  /**
   * A command waits in the queue like a turn. The decode thread calls `visit` when everything before it has ended, and
   * again after each `poke`, until `visit` returns true; turns requested after it begin then. If the scheduler
   * ends before that, `closed` is called instead.
   */
  Command command(std::function<bool()> visit, std::function<void()> closed);
  void enqueue(Command command) noexcept;
  void poke() noexcept;

  // For commands, within `visit` (commands.cc).

  /** See Decoder. */
  void loadAdapter(const std::string& path) { decoder_->loadAdapter(path); }
  /** No turn begins from cells of the adapter before, whether or not they are dropped. */
  void swapAdapter();
  /** See Decoder. All KV is invalid afterwards, also after an exception. Does nothing while it sleeps. */
  void warmUp();
  /**
   * Ends an adapter change, which may have invalidated the KV without a change. After a change, all turns fail with
   * `refusal` if that is not null.
   */
  void endAdapter(bool changed, bool voided, std::shared_ptr<const std::string> refusal) noexcept;
  /** Refuses turns from now on, also after an exception. */
  void sleepNow(bool weights);
  /** Wakes the decoder with this many slots (0: as before), and returns whether it slept. Turns wait for `endSleep`. */
  bool wakeNow(int slots);
  /** Undoes `wakeNow`. */
  void sleepAgain() { decoder_->sleep(withoutWeights_); }
  /** `slots` as for `wakeNow`. */
  void endSleep(int slots) noexcept;
  /** Called after the answers to turns that have ended before. */
  void later(std::function<void()> callback) { answers_.push_back(std::move(callback)); }

  /** CPU threads from the next batch on, at most `SchedulerSettings::threads`. Does not wait for the running batch. */
  void setThreads(int threads);

  Stats stats() const;
  /**
   * The number of the round of work that the decode thread is in, another one for each; 0 while it waits. One that stays is a batch, or
   * a command, that takes long, or that the device never ends.
   */
  uint64_t round() const { return round_.load(); }
  /** Like the destructor. Later calls end with an error at once. */
  void stop();
  /** Tells the decode thread to end, and does not wait for it. */
  void beginStop();
  /** Whether the decode thread has ended by then. */
  bool endsBy(Clock::time_point time);

 private:
  /** A sequence with a turn, or (sequence 0) a command. */
  struct Waiting {
    SequenceId sequence = 0;
    std::function<bool()> visit;
    std::function<void()> closed;
  };

  // scheduler.cc: the thread, its inbox, and requests.
  bool stopping() const;
  bool post(std::function<void()> message);
  bool deliver(Messages& messages) noexcept;
  void run();
  void receive(Messages& messages);
  void publish();
  void begin(SequenceId id, std::shared_ptr<Turn> turn);
  void endTurn(Sequence& sequence, Stop stop, Failure error = {});
  void closeNow(SequenceId id);
  void endRunning(const Failure& error);
  void flush();
  static void answer(Turn& turn);

  // admission.cc: assignment of slots.
  void admit();
  bool makeRoom();
  bool waitsForLeader(const Sequence& sequence);
  void stopForCopies(Sequence& sequence) const;
  void start(Sequence& sequence);
  void takeSlot(Sequence& sequence);
  void dropSlots(bool clearDecoder) noexcept;
  Clock::time_point nextEvent() const;

  // step.cc: one batch.
  void step();
  void compact();
  void countCells();
  std::optional<Stop> endOf(const Turn& turn, size_t length) const;
  void take(Sequence& sequence, const Drawn& drawn);
  void handOut();

  std::unique_ptr<Decoder> decoder_;
  const SchedulerSettings settings_;
  const std::shared_ptr<Turnstile> turnstile_;

  mutable std::mutex mutex_;
  std::condition_variable wakeUp_;
  Messages inbox_;
  /** A command wants to be visited. */
  bool poked_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::condition_variable hasEnded_;
  Stats published_;
  /** Requested CPU threads; those in use are in `stats_`. */
  std::atomic<int> threads_;
  std::atomic<uint64_t> round_{0};

  // Used by the decode thread only, from here on.
  Slots slots_;
  std::map<SequenceId, Sequence> sequences_;
  std::map<TurnId, SequenceId> turns_;
  std::list<Waiting> queue_;
  std::vector<Sequence*> running_;
  bool asleep_ = false;
  /** The decoder sleeps without weights. */
  bool withoutWeights_ = false;
  /** The error with which all turns are refused; null when they are not. */
  std::shared_ptr<const std::string> refusal_;
  /** Callbacks to be called when the thread's own records are consistent again. */
  std::vector<std::function<void()>> answers_;
  Stats stats_;
  Planner planner_;
  RowSampler sampler_;

  std::mutex stopMutex_;
  std::thread thread_;
};

}  // namespace hone
