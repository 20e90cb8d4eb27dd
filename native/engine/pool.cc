#include "pool.h"

#include <algorithm>
#include <utility>

namespace hone {

Pool::Pool(int threads) {
  try {
    helpers_.reserve(static_cast<size_t>(std::max(0, threads - 1)));
    for (int thread = 1; thread < threads; thread++) helpers_.emplace_back([this, thread] { help(thread); });
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Pool::drain(int thread) {
  try {
    for (int item; (item = next_.fetch_add(1)) < items_;) (*work_)(item, thread);
  } catch (...) {
    next_ = items_;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Pool::help(int thread) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    started_.wait(lock, [&] { return stopping_ || wanted_ > 0; });
    if (stopping_) return;
    wanted_--;
    busy_++;
    begun_++;
    lock.unlock();
    drain(thread);
    lock.lock();
    if (--busy_ == 0) finished_.notify_one();
  }
}

void Pool::run(int items, const std::function<void(int, int)>& work) {
  if (helpers_.empty() || items < 2) {
    for (int item = 0; item < items; item++) work(item, 0);
    return;
  }
  const int helpers = std::min(static_cast<int>(helpers_.size()), items - 1);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    items_ = items;
    next_ = 0;
    wanted_ = helpers;
  }
  for (int helper = 0; helper < helpers; helper++) started_.notify_one();
  drain(0);
  std::unique_lock<std::mutex> lock(mutex_);
  wanted_ = 0;
  finished_.wait(lock, [&] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace hone
