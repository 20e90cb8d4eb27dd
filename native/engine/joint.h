// Commands that all lanes carry out together, or not at all.
//
// A command has phases. Each lane does its part of a phase on its own decode thread, when the turns requested before
// the command have ended there, and begins nothing else until all lanes have done theirs. The next phase depends on
// whether a lane failed. The lane that finishes the last phase calls `done`.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scheduler.h"

namespace hone {

class Joint {
 public:
  /** The lanes must outlive it, which they do since all are stopped before one is freed. */
  Joint(std::vector<Scheduler*> lanes, CommandDone done);
  virtual ~Joint() = default;

  /**
   * Does as many phases of a lane's part as possible now; true when the command is finished. On the lane's decode
   * thread. If it throws, for lack of memory, it must be called again.
   */
  bool visit(int lane);
  /** A lane has ended: the command ends in its current phase, with an error, unless it is finished. On any thread. */
  void close() noexcept;

 protected:
  static constexpr int kOver = -1;

  size_t count() const { return lanes_.size(); }
  /** A lane's part of a phase, beginning with 0. May throw std::exception. */
  virtual void act(int phase, Scheduler& scheduler, int lane) = 0;
  /** The phase after one that all lanes have finished, or kOver. If it throws, it is called again. */
  virtual int next(int phase, bool failed) = 0;
  /** The argument of `done`, given the first failure, if there is one. */
  virtual Failure outcome(const Failure& failure) { return failure; }
  /** Called before `done`. */
  virtual void conclude() noexcept {}

 private:
  void advance(int lane);

  const std::vector<Scheduler*> lanes_;
  CommandDone done_;
  /** The error of `close`, created in advance, since `close` must not need memory. */
  const Failure closed_;
  /** Guards the members below, and the calls of `next`, `outcome` and `conclude`. */
  std::mutex mutex_;
  int phase_ = 0;
  /** Number of lanes that have not finished the phase yet. */
  size_t left_;
  /** For each lane: whether it has finished the phase. */
  std::vector<char> did_;
  /** Whether a lane failed in the phase. */
  bool failed_ = false;
  Failure failure_;
};

/** Loads an adapter in all lanes, "" for none. If it fails in one lane, all keep the adapter that they have. */
std::shared_ptr<Joint> newAdapterChange(std::vector<Scheduler*> lanes, std::string path,
                                        std::function<void(std::string path)> changed, CommandDone done);

/** Puts all lanes to sleep. They refuse turns afterwards, also after a failure. */
std::shared_ptr<Joint> newSleep(std::vector<Scheduler*> lanes, bool weights, CommandDone done);

/** Wakes all lanes, each with its number of slots (0: as many as before). If it fails in one, all stay asleep. */
std::shared_ptr<Joint> newWake(std::vector<Scheduler*> lanes, std::vector<int> slots,
                               std::function<void(const std::vector<int>& slots)> changed, CommandDone done);

}  // namespace hone
