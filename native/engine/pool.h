// A few threads that share the rows of a batch. Sampling is the only work of ours that takes time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hone {

class Pool {
 public:
  /** `threads` counts the caller of `run`. */
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /**
   * Calls `work(item, thread)` for every item in [0, items); each thread number in [0, threads()) is one thread. An
   * exception of `work` is rethrown here when all threads have finished; items may then be left out.
   *
   * The caller works too and wakes at most one helper for each further item. It only waits for helpers in the middle of
   * an item: a helper that has not begun when the last item is taken need not begin.
   */
  void run(int items, const std::function<void(int item, int thread)>& work);

  /** Number of times a helper has begun to look for items; not while `run` is active. */
  uint64_t begun() const { return begun_; }

 private:
  void help(int thread);
  void drain(int thread);
  void stop();

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable started_;
  std::condition_variable finished_;
  const std::function<void(int, int)>* work_ = nullptr;
  std::atomic<int> next_{0};
  int items_ = 0;
  /** Helpers that were woken and have not begun. */
  int wanted_ = 0;
  /** Helpers that have begun and not finished. */
  int busy_ = 0;
  uint64_t begun_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
};

}  // namespace hone
