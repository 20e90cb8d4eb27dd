// Commands in the queue, and the steps from which joint.cc builds them.
#include <stdexcept>

#include "scheduler.h"

namespace hone {

Scheduler::Command Scheduler::command(std::function<bool()> visit, std::function<void()> closed) {
  const auto waiting = std::make_shared<std::list<Waiting>>();
  waiting->push_back({0, std::move(visit), closed});
  Command command;
  command.message.push_back([this, waiting] { queue_.splice(queue_.end(), *waiting); });
  command.closed = std::move(closed);
  return command;
}

void Scheduler::enqueue(Command command) noexcept {
  if (!deliver(command.message)) command.closed();
}

void Scheduler::poke() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    poked_ = true;
  }
  wakeUp_.notify_all();
}

void Scheduler::swapAdapter() {
  slots_.newAdapter();
  decoder_->swapAdapter();
}

void Scheduler::warmUp() {
  if (!asleep_) decoder_->warmUp();
}

void Scheduler::endAdapter(bool changed, bool voided, std::shared_ptr<const std::string> refusal) noexcept {
  decoder_->dropAdapter();
  if (changed) refusal_ = std::move(refusal);
  if (voided) dropSlots(!asleep_);
}

void Scheduler::sleepNow(bool weights) {
  asleep_ = true;
  withoutWeights_ = withoutWeights_ || weights;
  dropSlots(false);
  decoder_->sleep(weights);
}

bool Scheduler::wakeNow(int slots) {
  if (asleep_) {
    decoder_->wake(slots > 0 ? slots : slots_.count());
  } else if (slots > 0 && slots != slots_.count()) {
    throw std::runtime_error("the engine is awake; sleep() before its sequences are changed");
  }
  return asleep_;
}

void Scheduler::endSleep(int slots) noexcept {
  if (asleep_ && slots > 0) slots_.resize(slots);
  asleep_ = false;
  withoutWeights_ = false;
}

}  // namespace hone
