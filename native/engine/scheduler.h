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
#include "pool.h"
#include "sampling.h"
#include "shape.h"
#include "slots.h"
#include "turn.h"

namespace hone {

struct SchedulerSettings {
  /** Maximum: a scheduler may wake with fewer. */
  int slots = 1;
  /** Maximum number of tokens of a sequence. */
  int contextPerSlot = 0;
  /** Maximum number of tokens of one decode call, at least one per slot. */
  int batch = 2048;
  /**
   * Maximum number of prompt tokens in one decode call: running turns wait for these. In a pool they are one pass with a row
   * of each running sequence.
   */
  int promptBatch = 512;
  /** Maximum number of rows of logits of one decode call, more than `slots`; reduced by as many as the slots are. */
  int outputs = 64;
  /**
   * llama.cpp makes a pass over the weights for each run of neighbouring slots. A gap of up to this many idle slots
   * is closed by evaluating a token for them too, which is cheaper than another pass.
   */
  int fillGap = 0;
  /** Maximum number of tokens of one pass over the weights. */
  int ubatch = 512;
  /**
   * The KV of all slots is one pool: a batch is one pass whichever slots it has, so that no slots are moved together
   * and no gaps closed.
   */
  bool pooled = false;
  /**
   * Pads batches to a few shapes: llama.cpp then reuses the graph of the previous batch.
   * Useful where a row is cheap compared with building a graph: on a GPU.
   */
  bool steady = false;
  int samplingThreads = 1;
  /** CPU threads the decoder was made with. */
  int threads = 1;
  /** Milliseconds a sequence may be idle while others wait for a slot. */
  int restMs = 1000;
};

/** The error of turns and commands after the scheduler has ended. */
constexpr const char* kClosed = "the engine was closed";

/** An id for a sequence, a turn or a group, unique in this process. */
uint64_t newId();

class Scheduler {
 public:
  Scheduler(std::unique_ptr<Decoder> decoder, const SchedulerSettings& settings);
  /** Ends everything with "cancelled" and joins the decode thread. Must not be called from a callback. */
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /** `id` comes from newId(). The prompt is not empty, shorter than the context, and has valid ids. */
  void open(SequenceId id, OwnerId owner, GroupId group, std::vector<Token> prompt);
  /** One turn at a time. Unknown sequences and a second turn end with an error. */
  TurnId generate(SequenceId sequence, TurnRequest request, TurnDone done);
  /** Log-probabilities of tokens[from ...], 1 ≤ from < tokens.size() ≤ context. */
  TurnId score(OwnerId owner, std::vector<Token> tokens, int from, ScoreDone done);
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

  /** This and the next: see Decoder. */
  void loadAdapter(const std::string& path) { decoder_->loadAdapter(path); }
  void swapAdapter() { decoder_->swapAdapter(); }
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
  /** Like the destructor. Later calls end with an error at once. */
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Turn {
    TurnId id = 0;
    TurnRequest request;
    TurnResult result;
    TurnDone done;
    Clock::time_point asked = Clock::now();
    /** A score: nothing is sampled, the logprobs of given tokens from `from` on are collected. */
    ScoreDone scored;
    int from = 0;
    std::vector<float> scores;
  };

  enum class State { idle, queued, running };

  struct Sequence {
    SequenceId id = 0;
    OwnerId owner = 0;
    GroupId group = 0;
    std::vector<Token> tokens;
    int slot = -1;
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

  /** A sequence with a turn, or (sequence 0) a command. */
  struct Waiting {
    SequenceId sequence = 0;
    std::function<bool()> visit;
    std::function<void()> closed;
  };

  /** A row of the batch whose logits are read. */
  struct Row {
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
  bool waitsForLeader(const Sequence& sequence) const;
  void start(Sequence& sequence);
  void takeSlot(Sequence& sequence);
  void dropSlots(bool clearDecoder) noexcept;
  void endOverdue();
  Clock::time_point nextEvent() const;

  // step.cc: one batch.
  void step();
  void compact();
  void plan();
  int promptRoom(int shape) const;
  int takeOf(const Sequence& sequence, int& prompt, int& outputs) const;
  void addRows(Sequence& sequence, int take);
  std::optional<Stop> endAfter(const TurnRequest& request, Token token, size_t sampled, size_t length) const;
  void sample(Row& row, Sampler& sampler);
  void sampleRows();
  void take(Sequence& sequence, const Drawn& drawn);
  void handOut();

  // device_rows.cc: rows that are drawn where the logits are.
  bool drawsOnDevice();
  void addDraws();
  void takeDrawn();

  // shape.cc: padding tokens.
  int steadySlots();
  int pooledRows();
  void fillGap(int from, int to);
  void fill(int slot);
  void pad(int shape);

  std::unique_ptr<Decoder> decoder_;
  const SchedulerSettings settings_;

  mutable std::mutex mutex_;
  std::condition_variable wakeUp_;
  Messages inbox_;
  /** A command wants to be visited. */
  bool poked_ = false;
  bool stopping_ = false;
  Stats published_;
  /** Requested CPU threads; those in use are in `stats_`. */
  std::atomic<int> threads_;

  // Used by the decode thread only, from here on.
  Slots slots_;
  Pool pool_;
  std::vector<Sampler> samplers_;
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
  Batch batch_;
  std::vector<Row> rows_;
  /** Slots that were given a padding token. */
  std::vector<int> filled_;
  HeldShape outputShape_;
  /** So many batches are still sampled by the host. */
  int hostBatches_ = 0;
  Stats stats_;

  std::mutex stopMutex_;
  std::thread thread_;
};

}  // namespace hone
