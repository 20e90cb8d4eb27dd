// Commands that all lanes carry out together, or not at all.
//
// A command has phases. Each lane does its part of a phase on its own decode thread, when the turns that were asked for
// before the command have ended there, and begins nothing else until all lanes have done theirs. The next phase depends
// on whether a lane failed. The lane that finishes the last phase calls `done`.
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
  /** The lanes must outlive it, which they do as all are stopped before one is freed. */
  Joint(std::vector<Scheduler*> lanes, CommandDone done);
  virtual ~Joint() = default;

  /**
   * Does as many phases of a lane's part as can be done now; true when the command is over. On the lane's decode thread.
   * When it throws, for want of memory, it has to be called again.
   */
  bool visit(int lane);
  /** A lane has ended: the command ends in the phase that it is in, with an error, unless it is over. On any thread. */
  void close() noexcept;

 protected:
  static constexpr int kOver = -1;

  size_t count() const { return lanes_.size(); }
  /** A lane's part of a phase, beginning with 0. It may throw std::exception. */
  virtual void act(int phase, Scheduler& scheduler, int lane) = 0;
  /** The phase after one that all lanes have done, or kOver. When it throws, it is called again. */
  virtual int next(int phase, bool failed) = 0;
  /** For `done`, given the first failure, if there is one. */
  virtual Failure outcome(const Failure& failure) { return failure; }
  /** Called before `done`. */
  virtual void conclude() noexcept {}

 private:
  void advance(int lane);

  const std::vector<Scheduler*> lanes_;
  CommandDone done_;
  /** The error of `close`, which may not need memory. */
  const Failure closed_;
  /** Guards the members below, and the calls of `next`, `outcome` and `conclude`. */
  std::mutex mutex_;
  int phase_ = 0;
  /** The number of lanes that have not done the phase yet. */
  size_t left_;
  /** Of each lane: whether it has done the phase. */
  std::vector<char> did_;
  /** Whether a lane failed in the phase. */
  bool failed_ = false;
  Failure failure_;
};

/** Puts an adapter on all lanes, "" for none. When it fails in one lane, all keep the adapter that they have. */
std::shared_ptr<Joint> newAdapterChange(std::vector<Scheduler*> lanes, std::string path,
                                        std::function<void(std::string path)> changed, CommandDone done);

/** Puts all lanes to sleep. They refuse turns afterwards, also when it fails. */
std::shared_ptr<Joint> newSleep(std::vector<Scheduler*> lanes, bool weights, CommandDone done);

/** Wakes all lanes, each with its number of slots (0: as many as before). When it fails in one, all stay asleep. */
std::shared_ptr<Joint> newWake(std::vector<Scheduler*> lanes, std::vector<int> slots,
                               std::function<void(const std::vector<int>& slots)> changed, CommandDone done);

}  // namespace hone
