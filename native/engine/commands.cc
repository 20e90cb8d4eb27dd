// What waits in the queue beside turns, and what it may do with the decoder when it is its turn.
#include <stdexcept>

#include "scheduler.h"

namespace hone {

void Scheduler::enqueue(std::function<bool()> visit, CommandDone closed) {
  const auto waiting = std::make_shared<Waiting>(Waiting{0, std::move(visit), std::move(closed)});
  const bool posted = post([this, waiting] {
    try {
      queue_.push_back(*waiting);
    } catch (const std::exception& exception) {
      tell(waiting->closed, exception.what());
    }
  });
  if (!posted) tell(waiting->closed, kClosed);
}

void Scheduler::poke() {
  post([] {});
}

void Scheduler::loadAdapter(const std::string& path) {
  if (asleep_) throw std::runtime_error("the engine sleeps; wake() it before its adapter is changed");
  decoder_->loadAdapter(path);
}

void Scheduler::endAdapter(bool changed, std::shared_ptr<const std::string> refusal) noexcept {
  decoder_->dropAdapter();
  if (!changed) return;
  refusal_ = std::move(refusal);
  dropSlots(true);
}

void Scheduler::sleepNow(bool weights) {
  asleep_ = true;
  withoutWeights_ = withoutWeights_ || weights;
  dropSlots(false);
  decoder_->sleep(weights);
}

bool Scheduler::wakeNow() {
  if (asleep_) decoder_->wake();
  return asleep_;
}

void Scheduler::endSleep() noexcept {
  asleep_ = false;
  withoutWeights_ = false;
}

}  // namespace hone
