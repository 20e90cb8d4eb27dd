#include "joint.h"

namespace hone {

Joint::Joint(std::vector<Scheduler*> lanes, CommandDone done)
    : lanes_(std::move(lanes)),
      done_(std::move(done)),
      closed_(kClosed),
      left_(lanes_.size()),
      did_(lanes_.size(), 0) {}

bool Joint::visit(int lane) {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (phase_ == kOver) return true;
    if (!did_[lane]) {
      const int phase = phase_;
      lock.unlock();
      Failure failure;
      try {
        act(phase, *lanes_[lane], lane);
      } catch (const std::exception& exception) {
        failure = Failure(exception);
      }
      lock.lock();
      if (phase_ == kOver) return true;
      did_[lane] = 1;
      left_--;
      failed_ = failed_ || !failure.empty();
      if (failure_.empty()) failure_ = std::move(failure);
    }
    if (left_ > 0) return false;
    advance(lane);
    lock.unlock();
    for (size_t other = 0; other < lanes_.size(); other++) {
      if (static_cast<int>(other) != lane) lanes_[other]->poke();
    }
  }
}

/** Begins the phase after one that all lanes have finished. If it throws, for lack of memory, nothing has changed. */
void Joint::advance(int lane) {
  const int following = next(phase_, failed_);
  if (following == kOver) {
    lanes_[lane]->later([done = done_, error = outcome(failure_)] { tell(done, error); });
    conclude();
  }
  phase_ = following;
  failed_ = false;
  left_ = lanes_.size();
  did_.assign(did_.size(), 0);
}

void Joint::close() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (phase_ == kOver) return;
    phase_ = kOver;
  }
  tell(done_, closed_);
  for (Scheduler* lane : lanes_) lane->poke();
}

namespace {

class AdapterChange final : public Joint {
 public:
  AdapterChange(std::vector<Scheduler*> lanes, std::string path, std::function<void(std::string)> changed,
                CommandDone done)
      : Joint(std::move(lanes), std::move(done)),
        path_(std::move(path)),
        changed_(std::move(changed)),
        swapped_(count(), 0) {}

 private:
  enum Phase { load, swap, warm, back, finish };

  void act(int phase, Scheduler& scheduler, int lane) override {
    switch (phase) {
      case load:
        return scheduler.loadAdapter(path_);
      case swap:
        scheduler.swapAdapter();
        swapped_[lane] = 1;
        return;
      case warm:
        return scheduler.warmUp();
      case back:
        if (swapped_[lane]) scheduler.swapAdapter();
        return;
      default:
        return scheduler.endAdapter(changes_, void_, refusal_);
    }
  }

  int next(int phase, bool failed) override {
    switch (phase) {
      case load:
        return failed ? finish : swap;
      case swap:
        return failed ? back : warm;
      case warm:
        void_ = true;
        changes_ = !failed;
        return failed ? back : finish;
      case back:
        if (failed) {
          refusal_ = std::make_shared<const std::string>(
              "the engine's lanes run different adapters, as a change failed in one and could not be taken back in "
              "another; call useAdapter() again");
          void_ = true;
          changes_ = true;
        }
        return finish;
      default:
        return kOver;
    }
  }

  Failure outcome(const Failure& failure) override {
    return refusal_ ? Failure(failure.message + "; " + *refusal_, failure.memory) : failure;
  }

  void conclude() noexcept override {
    if (refusal_) changed_("");
    else if (changes_) changed_(std::move(path_));
  }

  std::string path_;
  const std::function<void(std::string)> changed_;
  /** For each lane: whether it uses the new adapter. */
  std::vector<char> swapped_;
  /** The lanes' adapters have changed. */
  bool changes_ = false;
  /** The KV in all lanes is invalid: through the change, or through its warm-up. */
  bool void_ = false;
  std::shared_ptr<const std::string> refusal_;
};

class Sleep final : public Joint {
 public:
  Sleep(std::vector<Scheduler*> lanes, bool weights, CommandDone done)
      : Joint(std::move(lanes), std::move(done)), weights_(weights) {}

 private:
  void act(int, Scheduler& scheduler, int) override { scheduler.sleepNow(weights_); }
  int next(int, bool) override { return kOver; }

  const bool weights_;
};

class Wake final : public Joint {
 public:
  Wake(std::vector<Scheduler*> lanes, std::vector<int> slots, std::function<void(const std::vector<int>&)> changed,
       CommandDone done)
      : Joint(std::move(lanes), std::move(done)),
        slots_(std::move(slots)),
        changed_(std::move(changed)),
        woken_(count(), 0) {}

 private:
  enum Phase { wake, back, finish };

  void act(int phase, Scheduler& scheduler, int lane) override {
    switch (phase) {
      case wake:
        woken_[lane] = scheduler.wakeNow(slots_[lane]) ? 1 : 0;
        return;
      case back:
        if (woken_[lane]) scheduler.sleepAgain();
        return;
      default:
        return scheduler.endSleep(slots_[lane]);
    }
  }

  int next(int phase, bool failed) override {
    if (phase != wake) return kOver;
    woke_ = !failed;
    return failed ? back : finish;
  }

  void conclude() noexcept override {
    if (woke_) changed_(slots_);
  }

  const std::vector<int> slots_;
  const std::function<void(const std::vector<int>&)> changed_;
  /** For each lane: whether it was asleep. */
  std::vector<char> woken_;
  bool woke_ = false;
};

}  // namespace

std::shared_ptr<Joint> newAdapterChange(std::vector<Scheduler*> lanes, std::string path,
                                        std::function<void(std::string path)> changed, CommandDone done) {
  return std::make_shared<AdapterChange>(std::move(lanes), std::move(path), std::move(changed), std::move(done));
}

std::shared_ptr<Joint> newSleep(std::vector<Scheduler*> lanes, bool weights, CommandDone done) {
  return std::make_shared<Sleep>(std::move(lanes), weights, std::move(done));
}

std::shared_ptr<Joint> newWake(std::vector<Scheduler*> lanes, std::vector<int> slots,
                               std::function<void(const std::vector<int>& slots)> changed, CommandDone done) {
  return std::make_shared<Wake>(std::move(lanes), std::move(slots), std::move(changed), std::move(done));
}

}  // namespace hone
