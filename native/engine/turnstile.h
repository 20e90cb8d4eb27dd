// Lets one pass at a time through. The threads of a llama.cpp context meet by spinning: two contexts that compute on the same cores
// at once, each with a thread for every core, would nearly stop each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace hone {

/** A mutex that is had in the order in which it was asked for: a lane that computes without a break lets others in between. */
class Turnstile {
 public:
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t own = last_++;
    turned_.wait(lock, [&] { return now_ == own; });
  }

  void unlock() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      now_++;
    }
    turned_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turned_;
  uint64_t last_ = 0;
  uint64_t now_ = 0;
};

}  // namespace hone
