// Several schedulers side by side, each with a decode thread and a context of its own over the same weights; to its
// callers they are one.
//
// The threads of one llama.cpp context meet at a barrier after every operation. A small model's operations take
// microseconds, so its threads mostly wait for each other, and all of them whenever one has lost its core to another
// program. Lanes of one thread each never meet. A large model has one lane: its threads are busy between the barriers,
// and each lane would read all of its weights.
//
// A sequence gets its lane at its first turn and keeps it, as its KV lies there. Adapter changes, sleep and wake happen in
// all lanes or in none (joint.h); in each they keep their order among what is asked for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "joint.h"
#include "scheduler.h"

namespace hone {

/** The share of lane `lane` in something that is dealt out to all. */
inline int shareOf(int all, int lanes, int lane) { return all / lanes + (lane < all % lanes ? 1 : 0); }

/** What one lane is made of. */
struct Lane {
  std::unique_ptr<Decoder> decoder;
  SchedulerSettings settings;
};

/** Any thread may call any member. What they promise is said in scheduler.h. */
class Lanes {
 public:
  explicit Lanes(std::vector<Lane> lanes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  GroupId newGroup() { return newId(); }
  SequenceId open(OwnerId owner, GroupId group, std::vector<Token> prompt);
  TurnId generate(SequenceId sequence, TurnRequest request, TurnDone done);
  TurnId score(OwnerId owner, std::vector<Token> tokens, int from, ScoreDone done);
  void cancel(TurnId turn);
  void close(SequenceId sequence);
  void closeAll(OwnerId owner);

  // Commands. `done` is called when all lanes have carried out the command, with the first failure if there is one. When
  // a call throws, for want of memory, nothing has begun and `done` is not called.

  /**
   * "" takes the adapter off. After a failure all lanes keep the adapter that they had, or all refuse turns until a later
   * call succeeds. Lanes that sleep wake with the adapter.
   */
  void useAdapter(const std::string& path, CommandDone done);
  /** Turns are refused until `wake`, also after a failure. */
  void sleep(bool weights, CommandDone done);
  /**
   * With so many slots in all lanes together, at least one a lane and at most as many as in the beginning; 0: as many as
   * before. After a failure all lanes sleep as before.
   */
  void wake(int slots, CommandDone done);

  /** Of all lanes together; each keeps one at least. */
  void setThreads(int threads);

  /** The adapter in use, "" for none. */
  std::string adapter() const;
  /** Counts are sums, seconds are those of a lane in the mean. */
  Stats stats() const;
  void stop();

 private:
  struct Opened {
    OwnerId owner = 0;
    GroupId group = 0;
    /** Until it has a lane. */
    std::vector<Token> prompt;
    int lane = -1;
  };

  int size() const { return static_cast<int>(lanes_.size()); }
  int leastLoaded() const;
  int choose(GroupId group) const;
  std::vector<Scheduler*> all() const;
  void command(const std::shared_ptr<Joint>& joint);

  /** Commands reach all lanes in one order. */
  std::mutex commands_;
  /** Guards the members below, except the lanes, which lock for themselves. */
  mutable std::mutex mutex_;
  std::string adapter_;
  std::map<SequenceId, Opened> opened_;
  /** Of each lane, as it woke last. */
  std::vector<int> slots_;
  /** Sequences and scores of each lane. */
  std::vector<int> load_;
  /** The last member: their threads end before the rest goes. */
  std::vector<std::unique_ptr<Scheduler>> lanes_;
};

}  // namespace hone
