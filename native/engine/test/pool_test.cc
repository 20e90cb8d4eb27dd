// The threads that share the rows of a batch.
#include "../pool.h"
#include "fixture.h"

namespace hone {
namespace {

constexpr int kThreads = 16;

void everyItemIsWorkedOnOnce() {
  Pool pool(kThreads);
  for (int items = 0; items < 200; items++) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(items));
    std::vector<std::atomic<int>> within(kThreads);
    pool.run(items, [&](int item, int thread) {
      CHECK(within[thread]++ == 0);  // one thread has a number
      seen[item]++;
      within[thread]--;
    });
    for (const auto& times : seen) CHECK(times == 1);
  }
}

void noHelperBeginsWithoutWork() {
  Pool pool(kThreads);
  constexpr int rounds = 300;
  for (int items = 0; items <= 2; items++) {
    for (int round = 0; round < rounds; round++) {
      pool.run(items, [](int, int) { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
    }
  }
  CHECK(pool.begun() > 0 && pool.begun() <= rounds);
}

void failuresReachTheCaller() {
  Pool pool(3);
  for (int round = 0; round < 50; round++) {
    bool thrown = false;
    try {
      pool.run(20, [](int item, int) {
        if (item == 7) throw std::runtime_error("told to fail");
      });
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    CHECK(thrown);
    std::atomic<int> done{0};
    pool.run(20, [&](int, int) { done++; });
    CHECK(done == 20);
  }
}

}  // namespace

void testPool() {
  runTest("every item is worked on once", everyItemIsWorkedOnOnce);
  runTest("no helper begins without work", noHelperBeginsWithoutWork);
  runTest("failures reach the caller", failuresReachTheCaller);
}

}  // namespace hone
