// Commands that all lanes carry out together, or not at all.
//
// A command has phases. Each lane does its part of a phase on its own decode thread, when the turns that were asked for
// before the command have ended there, and begins nothing else until all lanes have done theirs. What comes next follows
// from how all of them went. The lane that ends last tells.
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
  /** The lanes outlive it: they are stopped before they are freed. */
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
  /** The phase that follows one that all lanes have done, or kOver. Asked again when it throws. */
  virtual int next(int phase, bool failed) = 0;
  /** What is told in the end, given the first failure; "" for success. */
  virtual std::string outcome(const std::string& failure) { return failure; }
  /** Before that is told. */
  virtual void conclude() noexcept {}

 private:
  void advance(int lane);

  const std::vector<Scheduler*> lanes_;
  CommandDone done_;
  /** The error of `close`, which may not need memory. */
  const std::string closed_;
  /** Guards all that follows, and the calls of `next`, `outcome` and `conclude`. */
  std::mutex mutex_;
  int phase_ = 0;
  /** Lanes that have to do the phase. */
  size_t left_;
  /** Of each lane: whether it has done the phase. */
  std::vector<char> did_;
  /** Whether a lane failed in the phase. */
  bool failed_ = false;
  std::string failure_;
};

/** Puts an adapter on all lanes, "" for none; when one cannot, all keep the one that they have. */
std::shared_ptr<Joint> newAdapterChange(std::vector<Scheduler*> lanes, std::string path,
                                        std::function<void(std::string path)> changed, CommandDone done);

/** All lanes sleep then, also when it fails. */
std::shared_ptr<Joint> newSleep(std::vector<Scheduler*> lanes, bool weights, CommandDone done);

/** Wakes all lanes; when one cannot, all sleep on. */
std::shared_ptr<Joint> newWake(std::vector<Scheduler*> lanes, CommandDone done);

}  // namespace hone
