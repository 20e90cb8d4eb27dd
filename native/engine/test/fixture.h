// The scheduler and its lanes over fake models, and the questions that tests ask them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../lanes.h"
#include "fake_decoder.h"

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "FAILED: %s (%s:%d)\n", #condition, __FILE__, __LINE__);          \
      std::abort();                                                                          \
    }                                                                                        \
  } while (0)

namespace hone {

constexpr int kContext = 200;

inline bool operator==(const Failure& failure, std::string_view message) {
  return std::string_view(failure.message) == message;
}

/** See SchedulerSettings. */
struct Shapes {
  bool pooled = false;
  bool steady = false;
  /** The decoder draws where its logits are. */
  bool samples = false;
  int promptBatch = 32;
  int batchMs = 1000;
  int mixedTokens = 0;
};

struct Fixture {
  FakeCounters counters;
  Lanes scheduler;

  explicit Fixture(int slots, bool canTrim = true, int restMs = 1000, int lanes = 1, Shapes shapes = {})
      : scheduler(lanesOf(slots, canTrim, restMs, lanes, shapes, counters)) {}

  static std::vector<Lane> lanesOf(int slots, bool canTrim, int restMs, int lanes, Shapes shapes, FakeCounters& counters) {
    std::vector<Lane> made;
    counters.pooled = shapes.pooled;
    counters.samples = shapes.samples;
    counters.mixed = shapes.mixedTokens;
    for (int lane = 0; lane < lanes; lane++) {
      const int own = shareOf(slots, lanes, lane);
      auto decoder = std::make_unique<FakeDecoder>(own, kContext, canTrim, counters, lane);
      made.push_back({std::move(decoder), settings(own, restMs, shapes)});
    }
    return made;
  }

  static SchedulerSettings settings(int slots, int restMs, Shapes shapes) {
    SchedulerSettings settings;
    settings.ubatch = 32;
    settings.pooled = shapes.pooled;
    settings.steady = shapes.steady;
    settings.slots = slots;
    settings.contextPerSlot = kContext;
    settings.batch = std::max(64, 2 * shapes.promptBatch);
    settings.promptBatch = shapes.promptBatch;
    settings.batchMs = shapes.batchMs;
    settings.outputs = slots + 8;
    settings.fillGap = 2;
    settings.samplingThreads = 3;
    settings.threads = 4;
    settings.restMs = restMs;
    return settings;
  }

  std::future<TurnResult> generate(SequenceId sequence, TurnRequest request, TurnId* id = nullptr) {
    auto result = std::make_shared<std::promise<TurnResult>>();
    auto future = result->get_future();
    const TurnId turn = scheduler.generate(sequence, std::move(request), [result](TurnResult answer) {
      result->set_value(std::move(answer));
      throw std::runtime_error("callbacks may fail");
    });
    if (id) *id = turn;
    return future;
  }

  std::future<ScoreResult> score(std::vector<Token> tokens, int from, int likeliest = 0) {
    auto result = std::make_shared<std::promise<ScoreResult>>();
    auto future = result->get_future();
    scheduler.score(1, std::move(tokens), from, likeliest, [result](ScoreResult answer) { result->set_value(std::move(answer)); });
    return future;
  }

  template <typename Start>
  static std::future<std::string> command(Start start) {
    auto result = std::make_shared<std::promise<std::string>>();
    auto future = result->get_future();
    start([result](const Failure& failure) { result->set_value(failure.message); });
    return future;
  }
};

inline TurnRequest request(int maxTokens, uint64_t seed, std::vector<Token> append = {}) {
  TurnRequest made;
  made.maxTokens = maxTokens;
  made.sampling.seed = seed;
  made.append = std::move(append);
  return made;
}

/** What a turn samples when nothing else runs. */
inline std::vector<Token> expected(std::vector<Token> tokens, size_t count, uint64_t seed, uint64_t adapter = 0) {
  Sampler sampler;
  SamplingParams params;
  params.seed = seed;
  std::vector<Token> sampled;
  while (sampled.size() < count) {
    const std::vector<float> logits = logitsAfter(stateAfter(tokens, tokens.size(), adapter));
    const Drawn drawn = sampler.draw(logits.data(), kVocabulary, params, uniform(seed, tokens.size()));
    sampled.push_back(drawn.token);
    tokens.push_back(drawn.token);
  }
  return sampled;
}

inline std::vector<Token> prompt(std::mt19937_64& random, int length) {
  std::vector<Token> tokens(length);
  for (Token& token : tokens) token = static_cast<Token>(random() % kVocabulary);
  return tokens;
}

template <typename Test>
void runTest(const char* name, Test test) {
  test();
  std::printf("ok %s\n", name);
  std::fflush(stdout);
}

/** constraint_test.cc. */
void testConstraints();
/** device_rows_test.cc. */
void testDeviceRows();
/** failures_test.cc. */
void testFailures();
/** pool_test.cc. */
void testPool();
/** report_test.cc. */
void testReports();
/** shape_test.cc. */
void testShapes();

}  // namespace hone
