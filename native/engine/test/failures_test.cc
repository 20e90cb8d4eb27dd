// A failure on a decode thread ends the turns that it concerns, and never the process or another lane's turns.
#include <new>
#include <thread>

#include "../pool.h"
#include "fixture.h"

namespace {

/** The n-th allocation of decode threads from now on fails; 0: none. */
std::atomic<int> failingAllocation{0};

}  // namespace

// GCC warns of free() on memory from operator new, though both operators are replaced here.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t size) {
  if (failingAllocation > 0 && hone::onDecodeThread && --failingAllocation == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace hone {

namespace {

std::vector<Token> joined(std::vector<Token> tokens, const std::vector<Token>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

void aFailedCopyEndsItsTurn() {
  for (const int failures : {1, 3}) {
    Fixture fixture(3);
    const std::vector<Token> common(40, 7);
    const GroupId group = fixture.scheduler.newGroup();
    const SequenceId first = fixture.scheduler.open(1, group, common);
    const TurnResult before = fixture.generate(first, request(5, 1)).get();
    const SequenceId second = fixture.scheduler.open(1, group, common);
    fixture.counters.fail(Call::copy, failures);
    for (int i = 0; i < failures; i++) {
      const TurnResult failed = fixture.generate(second, request(5, 2)).get();
      CHECK(failed.error == "told to fail" && failed.tokens.empty() && failed.length == 40);
    }
    CHECK(fixture.generate(second, request(5, 2)).get().tokens == expected(common, 5, 2));
    CHECK(fixture.generate(first, request(5, 1)).get().tokens == expected(joined(common, before.tokens), 5, 1));
  }
}

void aFailedTrimEndsItsTurn() {
  for (const bool canTrim : {true, false}) {
    for (const int failures : {1, 3}) {
      Fixture fixture(1, canTrim);
      const SequenceId first = fixture.scheduler.open(1, 1, std::vector<Token>(40, 7));
      fixture.generate(first, request(5, 1)).get();
      fixture.scheduler.close(first);
      const std::vector<Token> other = joined(std::vector<Token>(20, 7), {1, 2, 3});
      const SequenceId second = fixture.scheduler.open(1, 2, other);
      fixture.counters.fail(Call::trim, failures);
      // A slot whose contents are unknown is not used before it has been emptied.
      for (int i = 0; i < failures; i++) CHECK(fixture.generate(second, request(5, 2)).get().error == "told to fail");
      CHECK(fixture.generate(second, request(5, 2)).get().tokens == expected(other, 5, 2));
    }
  }
}

void aFailedMoveOrClearLosesNothing() {
  for (const Call clearing : {Call::none, Call::clear}) {
    Fixture fixture(8);
    fixture.counters.failingToo = clearing;
    std::vector<SequenceId> sequences;
    std::vector<std::vector<Token>> tokens;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < 8; i++) {
      tokens.push_back({1 + i, 2, 3});
      sequences.push_back(fixture.scheduler.open(1, 10 + i, tokens[i]));
    }
    // The long turns wait until the short ones are closed.
    std::promise<void> closed;
    for (int i = 0; i < 8; i++) {
      TurnRequest asked = request(i % 2 ? 100 : 3, i);
      if (i == 7) {
        asked.sampled = [&, heard = 0](Sampled) mutable {
          if (++heard == 10) closed.get_future().wait();
        };
      }
      turns.push_back(fixture.generate(sequences[i], asked));
    }
    for (int i = 0; i < 8; i += 2) {
      turns[i].get();
      if (i == 4) fixture.counters.fail(Call::copy);
      fixture.scheduler.close(sequences[i]);
    }
    closed.set_value();
    for (int round = 0; round < 2; round++) {
      for (int i = 1; i < 8; i += 2) {
        if (round == 1) turns[i] = fixture.generate(sequences[i], request(20, i));
        const TurnResult result = turns[i].get();
        CHECK(result.error.empty() || (round == 0 && result.error == "told to fail"));
        CHECK(result.tokens == expected(tokens[i], result.tokens.size(), i));
        tokens[i] = joined(tokens[i], result.tokens);
      }
      CHECK(fixture.counters.failures == 0);
    }
  }
}

void memoryThatCannotBeClearedIsNotUsed() {
  Fixture fixture(2);
  const SequenceId sequence = fixture.scheduler.open(1, 1, {1, 2, 3});
  fixture.counters.failingToo = Call::clear;
  fixture.counters.failIn = 5;
  const TurnResult failed = fixture.generate(sequence, request(20, 1)).get();
  CHECK(failed.error == "the fake decoder was told to fail" && failed.tokens.size() == 4);
  CHECK(fixture.generate(sequence, request(5, 1)).get().tokens == expected(joined({1, 2, 3}, failed.tokens), 5, 1));
  CHECK(Fixture::command([&](CommandDone done) { fixture.scheduler.useAdapter("5", std::move(done)); }).get().empty());
  CHECK(fixture.generate(fixture.scheduler.open(1, 2, {4}), request(5, 1)).get().tokens == expected({4}, 5, 1, 5));
}

void aLackOfMemoryIsKnown() {
  for (const char* said : {
           "ggml_aligned_malloc: insufficient memory (attempted to allocate 512.00 MB)",
           "ggml_gallocr_reserve_n_impl: failed to allocate Vulkan0 buffer of size 536870912",
           "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.00 MiB on device 0: cudaMalloc failed: out of memory",
           "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
           "Requested buffer size exceeds device buffer size limit: ErrorOutOfDeviceMemory",
           "mmap failed: Cannot allocate memory",
           "std::bad_alloc",
       }) {
    CHECK(saysOutOfMemory(said));
    CHECK(Failure(std::runtime_error(said)).memory);
  }
  for (const char* said : {"", "out of", "told to fail", "n_seq_max must be <= 256", "tensor 'x' data is corrupted"}) {
    CHECK(!saysOutOfMemory(said));
    CHECK(!Failure(std::runtime_error(said)).memory);
  }
  CHECK(Failure(OutOfMemory("no room")).memory && Failure(std::bad_alloc()).memory);
  CHECK(!Failure(std::runtime_error("")).empty());

  Fixture fixture(2);
  const SequenceId sequence = fixture.scheduler.open(1, 1, {1, 2, 3});
  fixture.counters.lacksMemory = true;
  fixture.counters.fail(Call::decode);
  const TurnResult lacking = fixture.generate(sequence, request(5, 1)).get();
  CHECK(lacking.error == "no memory, as told" && lacking.error.memory);
  fixture.counters.fail(Call::decode);
  CHECK(fixture.score({1, 2, 3}, 1).get().error.memory);
  std::promise<Failure> told;
  fixture.counters.fail(Call::load);
  fixture.scheduler.useAdapter("5", [&](const Failure& failure) { told.set_value(failure); });
  CHECK(told.get_future().get().memory);
  fixture.counters.lacksMemory = false;
  fixture.counters.fail(Call::decode);
  CHECK(!fixture.generate(sequence, request(5, 1)).get().error.memory);
}

/** Three lanes with two sequences each. */
struct ThreeLanes : Fixture {
  std::vector<SequenceId> sequences;

  explicit ThreeLanes(int restMs = 1000) : Fixture(6, true, restMs, 3) {
    for (int i = 0; i < 6; i++) sequences.push_back(scheduler.open(1, 10 + i, {1, 2, 3}));
    for (const TurnResult& result : play()) CHECK(result.error.empty());
  }

  static std::string ended(std::future<std::string> command) {
    CHECK(command.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return command.get();
  }

  std::string useAdapter(const std::string& path) {
    return ended(command([&](CommandDone done) { scheduler.useAdapter(path, std::move(done)); }));
  }
  std::string sleep(bool weights = true) {
    return ended(command([&](CommandDone done) { scheduler.sleep(weights, std::move(done)); }));
  }
  std::string wake(int slots = 0) {
    return ended(command([&](CommandDone done) { scheduler.wake(slots, std::move(done)); }));
  }

  std::vector<TurnResult> play() {
    std::vector<std::future<TurnResult>> turns;
    for (SequenceId sequence : sequences) turns.push_back(generate(sequence, request(1, 1)));
    std::vector<TurnResult> results;
    for (auto& turn : turns) results.push_back(turn.get());
    return results;
  }

  /** New sequences in all lanes draw what they draw under this adapter. */
  void runs(uint64_t adapter) {
    for (SequenceId sequence : sequences) scheduler.close(sequence);
    for (SequenceId& sequence : sequences) sequence = scheduler.open(1, newId(), {9, 8, 7});
    std::vector<std::future<TurnResult>> turns;
    for (SequenceId sequence : sequences) turns.push_back(generate(sequence, request(8, 1)));
    for (auto& turn : turns) CHECK(turn.get().tokens == expected({9, 8, 7}, 8, 1, adapter));
  }

  void refuses(const std::string& error) {
    for (const TurnResult& result : play()) CHECK(result.error == error && result.tokens.empty());
  }
};

void anAdapterChangesInAllLanesOrInNone() {
  for (const Call call : {Call::load, Call::swap, Call::warm}) {
    for (int lane = 0; lane < 3; lane++) {
      ThreeLanes fixture;
      CHECK(fixture.useAdapter("5").empty());
      fixture.counters.fail(call, 1, lane);
      CHECK(fixture.useAdapter("6") == "told to fail");
      CHECK(fixture.scheduler.adapter() == "5");
      fixture.runs(5);
      CHECK(fixture.useAdapter("6").empty());
      CHECK(fixture.scheduler.adapter() == "6");
      fixture.runs(6);
    }
  }
}

void lanesThatDifferRefuseTurns() {
  const std::string differ =
      "the engine's lanes run different adapters, as a change failed in one and could not be taken back in another; "
      "call useAdapter() again";
  ThreeLanes fixture;
  CHECK(fixture.useAdapter("5").empty());
  fixture.counters.failingToo = Call::swap;
  fixture.counters.failingTooLane = 0;
  fixture.counters.failingTooSkips = 1;
  fixture.counters.fail(Call::swap, 1, 2);
  CHECK(fixture.useAdapter("6") == "told to fail; " + differ);
  CHECK(fixture.scheduler.adapter() == "");
  fixture.refuses(differ);
  CHECK(fixture.sleep().empty());
  CHECK(fixture.wake().empty());
  fixture.refuses(differ);
  // An adapter that cannot be read changes nothing.
  CHECK(fixture.useAdapter("broken") == "the adapter is broken");
  fixture.refuses(differ);
  fixture.counters.failingToo = Call::none;
  fixture.counters.fail(Call::warm, 1, 1);
  CHECK(fixture.useAdapter("7") == "told to fail");
  fixture.refuses(differ);
  CHECK(fixture.useAdapter("7").empty());
  CHECK(fixture.scheduler.adapter() == "7");
  fixture.runs(7);
}

void lanesSleepAndWakeTogether() {
  const std::string sleeps = "the engine sleeps; wake() it first";
  for (int lane = 0; lane < 3; lane++) {
    ThreeLanes fixture;
    CHECK(fixture.useAdapter("5").empty());
    fixture.counters.fail(Call::sleep, 1, lane);
    CHECK(fixture.sleep() == "told to fail");
    fixture.refuses(sleeps);
    for (int round = 0; round < 2; round++) {
      fixture.counters.fail(Call::wake, 1, lane);
      CHECK(fixture.wake() == "told to fail");
      CHECK(fixture.counters.asleep == 3);
      fixture.refuses(sleeps);
    }
    // A lane that woke cannot be put to sleep again.
    fixture.counters.failingToo = Call::sleep;
    fixture.counters.failingTooLane = (lane + 1) % 3;
    fixture.counters.fail(Call::wake, 1, lane);
    CHECK(fixture.wake() == "told to fail");
    fixture.refuses(sleeps);
    fixture.counters.failingToo = Call::none;
    CHECK(fixture.wake().empty());
    CHECK(fixture.wake().empty());
    CHECK(fixture.counters.asleep == 0);
    fixture.runs(5);
  }
}

void lanesWakeWithFewerSlots() {
  for (int lane = 0; lane < 3; lane++) {
    ThreeLanes fixture(5);
    CHECK(fixture.scheduler.stats().slots == 6);
    CHECK(fixture.wake(6).empty());
    CHECK(fixture.wake(5) == "the engine is awake; sleep() before its sequences are changed");
    // Five leave one slot for the two sequences of the last lane; three leave that in all lanes.
    for (const int slots : {5, 3}) {
      const int before = fixture.scheduler.stats().slots;
      CHECK(fixture.sleep().empty());
      fixture.counters.fail(Call::wake, 1, lane);
      CHECK(fixture.wake(slots) == "told to fail");
      CHECK(fixture.scheduler.stats().slots == before);
      CHECK(fixture.wake(slots).empty());
      CHECK(fixture.scheduler.stats().slots == slots);
      fixture.runs(0);
      CHECK(fixture.score(std::vector<Token>(150, 4), 1).get().logprobs.size() == 149);
      CHECK(fixture.sleep().empty());
      CHECK(fixture.wake().empty());
      CHECK(fixture.scheduler.stats().slots == slots);
      fixture.runs(0);
    }
    CHECK(fixture.sleep().empty());
    CHECK(fixture.wake(6).empty());
    CHECK(fixture.scheduler.stats().slots == 6);
    fixture.runs(0);
  }
}

void anAdapterChangesWhileLanesSleep() {
  const std::string sleeps = "the engine sleeps; wake() it first";
  for (const bool weights : {false, true}) {
    for (const Call call : {Call::load, Call::swap}) {
      for (int lane = 0; lane < 3; lane++) {
        ThreeLanes fixture;
        CHECK(fixture.useAdapter("5").empty());
        CHECK(fixture.sleep(weights).empty());
        fixture.counters.fail(call, 1, lane);
        CHECK(fixture.useAdapter("6") == "told to fail");
        CHECK(fixture.scheduler.adapter() == "5");
        CHECK(fixture.useAdapter("7").empty());
        CHECK(fixture.scheduler.adapter() == "7");
        fixture.refuses(sleeps);
        // With the weights there the file is read at once; without them only `wake` can say that it is broken.
        CHECK(fixture.useAdapter("broken") == (weights ? "" : "the adapter is broken"));
        CHECK(fixture.wake() == (weights ? "the adapter is broken" : ""));
        if (weights) {
          CHECK(fixture.counters.asleep == 3);
          CHECK(fixture.scheduler.adapter() == "broken");
          CHECK(fixture.useAdapter("7").empty());
          CHECK(fixture.wake().empty());
        }
        fixture.runs(7);
        CHECK(fixture.sleep(weights).empty());
        CHECK(fixture.useAdapter("").empty());
        CHECK(fixture.wake().empty());
        fixture.runs(0);
      }
    }
  }
}

void aCommandThatWaitsForALaneHoldsUpNoEnd() {
  for (const bool stopped : {true, false}) {
    Fixture fixture(2, true, 10, 2);
    fixture.counters.microseconds = 20'000;
    const SequenceId first = fixture.scheduler.open(1, 1, {1, 2, 3});
    const SequenceId second = fixture.scheduler.open(1, 2, {4, 5, 6});
    TurnId id = 0;
    auto running = fixture.generate(first, request(190, 1), &id);
    fixture.generate(second, request(1, 2)).get();
    auto adapter = Fixture::command([&](CommandDone done) { fixture.scheduler.useAdapter("5", std::move(done)); });
    // The second's lane has come to the command, and waits there for the first's.
    TurnId waiting = 0;
    auto late = fixture.generate(second, request(5, 2), &waiting);
    fixture.scheduler.cancel(waiting);
    CHECK(late.get().stop == Stop::cancelled);
    if (stopped) {
      fixture.scheduler.stop();
      CHECK(adapter.get() == "the engine was closed");
      CHECK(running.get().stop == Stop::cancelled);
    } else {
      fixture.scheduler.cancel(id);
      CHECK(running.get().stop == Stop::cancelled);
      CHECK(adapter.get().empty());
    }
  }
}

void aHelpersFailureIsTheCallers() {
  Pool pool(4);
  for (int round = 0; round < 50; round++) {
    std::atomic<int> done{0};
    std::string error;
    try {
      pool.run(64, [&](int item, int) {
        if (item == round) throw std::runtime_error("item " + std::to_string(item));
        done++;
      });
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    CHECK(error == "item " + std::to_string(round));
    done = 0;
    pool.run(64, [&](int, int) { done++; });
    CHECK(done == 64);
  }
}

/** Every allocation of a decode thread fails once, in a scene that runs most of its code. */
void memoryThatRunsOutEndsTurns() {
  int failed = 0;
  int nth = 1;
  for (bool reached = true; reached; nth++) {
    Fixture fixture(2, true, 5);
    Lanes& scheduler = fixture.scheduler;
    fixture.generate(scheduler.open(1, 100, {1}), request(1, 1)).get();
    failingAllocation = nth;
    const std::vector<Token> common(20, 3);
    std::vector<SequenceId> sequences;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < 8; i++) {
      sequences.push_back(scheduler.open(1, i / 2, common));
      turns.push_back(fixture.generate(sequences[i], request(4, i)));
    }
    auto score = fixture.score(std::vector<Token>(30, 4), 1);
    auto adapter = Fixture::command([&](CommandDone done) { scheduler.useAdapter("5", std::move(done)); });
    std::vector<std::vector<Token>> tokens;
    for (int i = 0; i < 8; i++) {
      CHECK(turns[i].wait_for(std::chrono::seconds(60)) == std::future_status::ready);
      const TurnResult result = turns[i].get();
      failed += result.error.empty() ? 0 : 1;
      CHECK(result.error.empty() || result.error == "std::bad_alloc" || result.error == "the sequence is closed");
      CHECK(result.logprobs.size() == result.tokens.size());
      CHECK(result.tokens == expected(common, result.tokens.size(), i));
      const bool closed = result.error == "the sequence is closed";
      tokens.push_back(closed ? std::vector<Token>() : joined(common, result.tokens));
    }
    CHECK(score.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    CHECK(adapter.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    reached = failingAllocation <= 0;
    failingAllocation = 0;
    const uint64_t now = adapter.get().empty() ? 5 : 0;
    CHECK(scheduler.adapter() == (now == 5 ? "5" : ""));
    // Damage that a failure has left behind shows when the sequences go on.
    for (int i = 0; i < 8; i++) {
      if (tokens[i].empty()) continue;
      const TurnResult more = fixture.generate(sequences[i], request(3, i)).get();
      CHECK(more.error.empty() && more.tokens == expected(tokens[i], 3, i, now));
      scheduler.close(sequences[i]);
    }
    const SequenceId last = scheduler.open(1, 9, {1, 2});
    CHECK(fixture.generate(last, request(5, 3)).get().tokens == expected({1, 2}, 5, 3, now));
  }
  CHECK(failed > 0);
  std::printf("  %d allocations failed one by one, and %d turns with them\n", nth - 2, failed);
}

/** Every allocation of the decode threads fails once, while three lanes carry out commands. */
void memoryThatRunsOutHoldsUpNoCommand() {
  const std::string memory = std::bad_alloc().what();
  int failed = 0;
  int nth = 1;
  for (bool reached = true; reached; nth++) {
    ThreeLanes fixture;
    CHECK(fixture.useAdapter("5").empty());
    failingAllocation = nth;
    const std::string changed = fixture.useAdapter("6");
    CHECK(changed.empty() || changed == memory);
    const uint64_t adapter = changed.empty() ? 6 : 5;
    CHECK(fixture.scheduler.adapter() == std::to_string(adapter));
    CHECK(fixture.sleep().empty());
    CHECK(fixture.counters.asleep == 3);
    const std::string changedAsleep = fixture.useAdapter("8");
    CHECK(changedAsleep.empty() || changedAsleep == memory);
    const uint64_t last = changedAsleep.empty() ? 8 : adapter;
    CHECK(fixture.scheduler.adapter() == std::to_string(last));
    const std::string woken = fixture.wake(5);
    CHECK(woken.empty() || woken == memory);
    CHECK(fixture.scheduler.stats().slots == (woken.empty() ? 5 : 6));
    CHECK(fixture.counters.asleep == (woken.empty() ? 0 : 3));
    reached = failingAllocation <= 0;
    failingAllocation = 0;
    failed += changed.empty() && changedAsleep.empty() && woken.empty() ? 0 : 1;
    CHECK(fixture.wake().empty());
    CHECK(fixture.counters.asleep == 0);
    fixture.runs(last);
  }
  CHECK(failed > 0);
  std::printf("  %d allocations failed one by one, and %d commands with them\n", nth - 2, failed);
}

/** A command that waits for a lane is told of the engine's end, whichever allocation fails then. */
void memoryThatRunsOutHidesNoEnd() {
  int nth = 1;
  for (bool reached = true; reached; nth++) {
    Fixture fixture(2, true, 10, 2);
    const SequenceId first = fixture.scheduler.open(1, 1, {1, 2, 3});
    const SequenceId second = fixture.scheduler.open(1, 2, {4, 5, 6});
    fixture.generate(first, request(1, 1)).get();
    fixture.generate(second, request(1, 2)).get();
    fixture.counters.microseconds = 20'000;
    auto running = fixture.generate(first, request(100, 1));
    std::atomic<bool> told{false};
    fixture.scheduler.useAdapter("5", [&](const Failure& error) { told = error == "the engine was closed"; });
    failingAllocation = nth;
    fixture.scheduler.stop();
    reached = failingAllocation <= 0;
    failingAllocation = 0;
    CHECK(told);
  }
}

/** Every allocation of the thread that asks for a command fails once. */
void aCommandReachesAllLanesOrNone() {
  int refused = 0;
  for (bool thrown = true; thrown; refused++) {
    ThreeLanes fixture;
    std::promise<bool> done;
    const CommandDone callback = [&](const Failure& error) { done.set_value(error.empty()); };
    thrown = false;
    failingAllocation = refused + 1;
    onDecodeThread = true;
    try {
      fixture.scheduler.sleep(true, callback);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    onDecodeThread = false;
    failingAllocation = 0;
    if (!thrown) CHECK(done.get_future().get());
    const std::string error = thrown ? "" : "the engine sleeps; wake() it first";
    for (const TurnResult& result : fixture.play()) CHECK(result.error == error);
    CHECK(fixture.counters.asleep == (thrown ? 0 : 3));
  }
  CHECK(refused > 3);
}

}  // namespace

void testFailures() {
  runTest("a failed copy ends its turn", aFailedCopyEndsItsTurn);
  runTest("a failed trim ends its turn", aFailedTrimEndsItsTurn);
  runTest("a failed move or clear loses nothing", aFailedMoveOrClearLosesNothing);
  runTest("memory that cannot be cleared is not used", memoryThatCannotBeClearedIsNotUsed);
  runTest("a lack of memory is known", aLackOfMemoryIsKnown);
  runTest("an adapter changes in all lanes or in none", anAdapterChangesInAllLanesOrInNone);
  runTest("lanes that differ refuse turns", lanesThatDifferRefuseTurns);
  runTest("lanes sleep and wake together", lanesSleepAndWakeTogether);
  runTest("lanes wake with fewer slots", lanesWakeWithFewerSlots);
  runTest("an adapter changes while lanes sleep", anAdapterChangesWhileLanesSleep);
  runTest("a command that waits for a lane holds up no end", aCommandThatWaitsForALaneHoldsUpNoEnd);
  runTest("a helper's failure is the caller's", aHelpersFailureIsTheCallers);
  runTest("memory that runs out ends turns", memoryThatRunsOutEndsTurns);
  runTest("memory that runs out holds up no command", memoryThatRunsOutHoldsUpNoCommand);
  runTest("memory that runs out hides no end", memoryThatRunsOutHidesNoEnd);
  runTest("a command reaches all lanes or none", aCommandReachesAllLanesOrNone);
}

}  // namespace hone
