// Several parallel schedulers, each with a decode thread and a context of its own over the same weights, behind the
// interface of one.
//
// The threads of one llama.cpp context meet at a barrier after every operation. A small model's operations take
// microseconds, so its threads mostly wait for each other, and all of them whenever one has lost its core to another
// program. Lanes of one thread each never wait for each other. A large model has one lane: its threads are busy between
// the barriers, and each lane would read all of its weights. On a GPU, on request, the device computes one lane's batch while
// the host samples another's.
//
// A sequence gets its lane at its first turn and keeps it, as its KV is there. Adapter changes, sleep and wake happen
// in all lanes or in none (joint.h); each lane keeps their order relative to turns.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "joint.h"
#include "scheduler.h"

namespace hone {

/** The share of lane `lane` in a total. */
inline int shareOf(int all, int lanes, int lane) { return all / lanes + (lane < all % lanes ? 1 : 0); }

/** The parts of one lane. */
struct Lane {
  std::unique_ptr<Decoder> decoder;
  SchedulerSettings settings;
  /** As of a scheduler. */
  std::shared_ptr<Turnstile> turnstile{};
};

/** Any thread may call any member. For their contracts see scheduler.h. */
class Lanes {
 public:
  explicit Lanes(std::vector<Lane> lanes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  GroupId newGroup() { return newId(); }
  SequenceId open(OwnerId owner, GroupId group, std::vector<Token> prompt);
  TurnId generate(SequenceId sequence, TurnRequest request, TurnDone done);
  TurnId score(OwnerId owner, std::vector<Token> tokens, int from, int likeliest, ScoreDone done);
  void cancel(TurnId turn);
  void close(SequenceId sequence);
  void closeAll(OwnerId owner);

  // Commands. `done` is called when all lanes have carried out the command, with the first failure if there is one. If
  // a call throws, for lack of memory, nothing has begun and `done` is not called.

  /**
   * "" removes the adapter. After a failure all lanes keep the adapter that they had, or all refuse turns until a later
   * call succeeds. Sleeping lanes wake with the adapter.
   */
  void useAdapter(const std::string& path, CommandDone done);
  /** Turns are refused until `wake`, also after a failure. */
  void sleep(bool weights, CommandDone done);
  /**
   * With this many slots in all lanes together, at least one per lane and at most as many as at the start; 0: as many
   * as before. After a failure all lanes still sleep.
   */
  void wake(int slots, CommandDone done);

  /** Total of all lanes; each keeps at least one. */
  void setThreads(int threads);

  /** The adapter in use, "" for none. */
  std::string adapter() const;
  /** Counts are sums, seconds are means over the lanes. */
  Stats stats() const;
  /** Of each lane: see Scheduler. */
  std::vector<uint64_t> rounds() const;
  void stop();
  void beginStop();
  bool endBy(Clock::time_point time);

 private:
  struct Opened {
    OwnerId owner = 0;
    GroupId group = 0;
    /** Before it has a lane. */
    std::vector<Token> prompt;
    int lane = -1;
  };

  int size() const { return static_cast<int>(lanes_.size()); }
  int leastLoaded() const;
  int choose(GroupId group) const;
  std::vector<Scheduler*> all() const;
  void command(const std::shared_ptr<Joint>& joint);

  /** Keeps the order of commands the same in all lanes. */
  std::mutex commands_;
  /** Guards the members below, except the lanes, which have locks of their own. */
  mutable std::mutex mutex_;
  std::string adapter_;
  std::map<SequenceId, Opened> opened_;
  /** For each lane its slots since its last wake. */
  std::vector<int> slots_;
  /** Number of sequences and scores of each lane. */
  std::vector<int> load_;
  /** The last member: their threads end before the other members are destroyed. */
  std::vector<std::unique_ptr<Scheduler>> lanes_;
};

}  // namespace hone
