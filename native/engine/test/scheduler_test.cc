// The scheduler and its lanes, over a fake model: first their promises one by one, then all at once from many threads.
// Built and run under AddressSanitizer and ThreadSanitizer by the Makefile beside this file.
#include <algorithm>
#include <cmath>

#include "fixture.h"

using namespace hone;

namespace {

void aGroupsPromptIsEvaluatedOnce() {
  std::mt19937_64 random(1);
  const std::vector<Token> common = prompt(random, 100);
  for (const int slots : {1, 2, 3, 8}) {
    Fixture fixture(slots);
    const GroupId group = fixture.scheduler.newGroup();
    std::vector<SequenceId> members;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < 8; i++) {
      members.push_back(fixture.scheduler.open(1, group, common));
      turns.push_back(fixture.generate(members.back(), request(1 + 3 * i, i)));
    }
    for (int i = 0; i < 8; i++) {
      const TurnResult result = turns[i].get();
      CHECK(result.error.empty());
      CHECK(result.tokens == expected(common, 1 + 3 * i, i));
      fixture.scheduler.close(members[i]);
    }
    const Stats stats = fixture.scheduler.stats();
    CHECK(stats.prefilled >= 99 + 8 && stats.prefilled <= 99 + 2 * 8);  // the rest: last tokens that closed gaps
    CHECK(stats.reused == 7 * 99);
  }
}

void aStateIsCopiedWhereItsPrefixEnds() {
  std::mt19937_64 random(1);
  const std::vector<Token> common = prompt(random, 100);
  std::vector<Token> branch(common.begin(), common.begin() + 60);
  branch.push_back((common[60] + 1) % kVocabulary);
  branch.resize(80, 3);
  Fixture fixture(7, false);
  // The decode thread waits until all have asked.
  std::promise<void> begun, asked;
  TurnRequest first = request(1, 1);
  first.sampled = [&](Sampled) {
    begun.set_value();
    asked.get_future().wait();
  };
  auto before = fixture.generate(fixture.scheduler.open(1, 1, {1}), first);
  begun.get_future().wait();
  const GroupId group = fixture.scheduler.newGroup();
  std::vector<SequenceId> members;
  std::vector<std::future<TurnResult>> turns;
  const auto promptOf = [&](int member) { return member < 4 ? common : branch; };
  for (int i = 0; i < 6; i++) {
    members.push_back(fixture.scheduler.open(1, group, promptOf(i)));
    turns.push_back(fixture.generate(members.back(), request(2 + i, i)));
  }
  asked.set_value();
  before.get();
  for (int i = 0; i < 6; i++) {
    const TurnResult result = turns[i].get();
    CHECK(result.error.empty() && result.tokens == expected(promptOf(i), 2 + i, i));
    std::vector<Token> tokens = promptOf(i);
    tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
    tokens.push_back(5);
    CHECK(fixture.generate(members[i], request(3, i, {5})).get().tokens == expected(tokens, 3, i));
  }
  const Stats stats = fixture.scheduler.stats();
  CHECK(stats.forks == 5 && stats.reused == 3 * 99 + 60 + 79);
  // Each prompt's last token has rows of its own; then the last sampled one and what was appended.
  CHECK(stats.prefilled == 1 + 99 + 19 + 6 + 6 * 2);
}

void turnsKeepTheirKv() {
  std::mt19937_64 random(2);
  Fixture fixture(2);
  std::vector<Token> tokens = prompt(random, 30);
  const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
  for (int turn = 0; turn < 4; turn++) {
    const std::vector<Token> append = turn == 0 ? std::vector<Token>{} : prompt(random, 5);
    tokens.insert(tokens.end(), append.begin(), append.end());
    const TurnResult result = fixture.generate(sequence, request(6, 9, append)).get();
    CHECK(result.stop == Stop::length && result.tokens == expected(tokens, 6, 9));
    tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
    CHECK(result.length == static_cast<int>(tokens.size()));
  }
  CHECK(fixture.scheduler.stats().prefilled == 30 + 3 * 6);  // the last sampled token, then what was appended
}

void turnsAreHeardAsTheyAreSampled() {
  Fixture fixture(2);
  std::mt19937_64 random(2);
  const std::vector<Token> tokens = prompt(random, 9);
  const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
  std::vector<Sampled> heard;
  TurnRequest listened = request(6, 9);
  listened.likeliest = 3;
  listened.sampled = [&](Sampled sampled) {
    heard.push_back(std::move(sampled));
    throw std::runtime_error("listeners may fail");
  };
  const TurnResult result = fixture.generate(sequence, listened).get();
  CHECK(result.tokens == expected(tokens, 6, 9) && heard.size() == 6);
  std::vector<Token> before = tokens;
  for (size_t i = 0; i < heard.size(); i++) {
    CHECK(heard[i].token == result.tokens[i] && heard[i].logprob == result.logprobs[i]);
    const std::vector<float> logits = logitsAfter(stateAfter(before, before.size(), 0));
    CHECK(heard[i].own == logprobOf(logits.data(), kVocabulary, heard[i].token));
    // The whole vocabulary, sorted.
    std::vector<Token> order(kVocabulary);
    for (Token token = 0; token < kVocabulary; token++) order[token] = token;
    std::sort(order.begin(), order.end(),
              [&](Token a, Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    CHECK(heard[i].likeliest.size() == 3);
    for (size_t k = 0; k < 3; k++) {
      const Likely& likely = heard[i].likeliest[k];
      CHECK(likely.token == order[k] && likely.logprob == logprobOf(logits.data(), kVocabulary, order[k]));
    }
    before.push_back(heard[i].token);
  }
}

void turnsEndForTheirReasons() {
  Fixture fixture(2);
  const auto open = [&](int length) {
    return fixture.scheduler.open(1, fixture.scheduler.newGroup(), std::vector<Token>(length, 3));
  };
  TurnRequest stopping = request(100, 4);
  for (Token token = 0; token < kVocabulary; token += 2) stopping.stop.push_back(token);
  const TurnResult stopped = fixture.generate(open(5), stopping).get();
  CHECK(stopped.stop == Stop::token && stopped.tokens.back() % 2 == 0);

  const TurnResult full = fixture.generate(open(kContext - 10), request(100, 4)).get();
  CHECK(full.stop == Stop::context && full.tokens.size() == 10 && full.length == kContext);
  const TurnResult none = fixture.generate(open(kContext - 10), request(100, 4, std::vector<Token>(10, 1))).get();
  CHECK(none.stop == Stop::context && none.tokens.empty() && none.length == kContext - 10);

  fixture.counters.microseconds = 1000;
  TurnRequest late = request(150, 4);
  late.limitMs = 20;
  CHECK(fixture.generate(open(5), late).get().stop == Stop::deadline);

  TurnId id = 0;
  const SequenceId sequence = open(5);
  auto cancelled = fixture.generate(sequence, request(150, 4), &id);
  CHECK(fixture.generate(sequence, request(1, 1)).get().error == "the sequence has a turn already; wait for it");
  fixture.scheduler.cancel(id);
  const TurnResult half = cancelled.get();
  CHECK(half.stop == Stop::cancelled && half.error.empty());
  std::vector<Token> tokens(5, 3);
  CHECK(half.tokens == expected(tokens, half.tokens.size(), 4));
  tokens.insert(tokens.end(), half.tokens.begin(), half.tokens.end());
  CHECK(fixture.generate(sequence, request(7, 4)).get().tokens == expected(tokens, 7, 4));

  auto closing = fixture.generate(sequence, request(150, 4));
  fixture.scheduler.close(sequence);
  CHECK(closing.get().stop == Stop::cancelled);
  CHECK(fixture.generate(sequence, request(1, 4)).get().error == "the sequence is closed");
}

void aLimitCountsWhatATurnUses() {
  Fixture fixture(1);
  fixture.counters.microseconds = 2000;
  const SequenceId one = fixture.scheduler.open(1, 1, {1, 2, 3});
  std::promise<void> begun, asked;
  TurnRequest first = request(20, 1);
  first.sampled = [&, held = false](Sampled) mutable {
    if (std::exchange(held, true)) return;
    begun.set_value();
    asked.get_future().wait();
  };
  auto running = fixture.generate(one, first);
  begun.get_future().wait();
  TurnRequest second = request(20, 2);
  second.limitMs = 1;
  auto waiting = fixture.generate(fixture.scheduler.open(1, 2, {4, 5}), second);
  asked.set_value();
  CHECK(running.get().tokens == expected({1, 2, 3}, 20, 1));
  fixture.scheduler.close(one);
  // It has waited for longer than its limit, which its first batch alone uses up.
  const TurnResult result = waiting.get();
  CHECK(result.stop == Stop::deadline && result.tokens == expected({4, 5}, 1, 2));
  CHECK(result.waitedMs > 20);
}

void aBatchThatIsHeldUpCountsALittle() {
  Shapes shapes;
  shapes.batchMs = 5;
  Fixture fixture(1, true, 1000, 1, shapes);
  fixture.counters.microseconds = 60'000;
  TurnRequest held = request(20, 1);
  held.limitMs = 1000;
  CHECK(fixture.generate(fixture.scheduler.open(1, 1, {1, 2, 3}), held).get().tokens == expected({1, 2, 3}, 20, 1));
}

void slowBatchesAreShortened() {
  Shapes shapes;
  shapes.promptBatch = 128;
  shapes.batchMs = 10;
  Fixture fixture(2, true, 1000, 1, shapes);
  fixture.counters.microsecondsPerToken = 1000;
  const auto largest = [&](Token token) {
    const std::vector<Token> tokens(190, token);
    const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
    CHECK(fixture.generate(sequence, request(1, 1)).get().tokens == expected(tokens, 1, 1));
    return fixture.counters.largest.exchange(0);
  };
  CHECK(largest(3) == 1 + 128);
  CHECK(largest(7) == 1 + Pace::kLeast);
}

void aPaceIsFound() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  Pace pace(500, seconds(1));
  // As long as a batch takes no more than twice what it should, whatever it has.
  pace.took(500, seconds(2));
  pace.took(1, seconds(100));
  CHECK(pace.tokens() == 500);
  pace.took(500, milliseconds(3900));
  CHECK(pace.tokens() == 128);
  pace.took(128, milliseconds(1500));
  pace.took(128, milliseconds(500));
  pace.took(64, milliseconds(1));
  CHECK(pace.tokens() == 128);
  pace.took(128, milliseconds(499));
  CHECK(pace.tokens() == 256);
  pace.took(200, milliseconds(10));
  CHECK(pace.tokens() == 500);
  // The process was stopped.
  pace.took(500, seconds(190));
  CHECK(pace.tokens() == Pace::kLeast);
  pace.took(Pace::kLeast, seconds(190));
  CHECK(pace.tokens() == Pace::kLeast);
  CHECK(Pace(20, seconds(1)).tokens() == 20);
  CHECK(pace.counted(seconds(190)) == seconds(2) && pace.counted(milliseconds(7)) == milliseconds(7));
}

void idleSequencesGiveWay() {
  Fixture fixture(1, true, 20);
  const SequenceId first = fixture.scheduler.open(1, 1, {1, 2, 3});
  std::vector<Token> tokens{1, 2, 3};
  const TurnResult one = fixture.generate(first, request(4, 1)).get();
  const SequenceId second = fixture.scheduler.open(1, 2, {4, 5});
  CHECK(fixture.generate(second, request(4, 2)).get().tokens == expected({4, 5}, 4, 2));
  CHECK(fixture.scheduler.stats().evicted == 1);
  tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
  CHECK(fixture.generate(first, request(4, 1)).get().tokens == expected(tokens, 4, 1));
}

void slotsStayDense() {
  Fixture fixture(8);
  // Otherwise the first of the long turns may end before the last one is asked for.
  fixture.counters.microseconds = 500;
  std::vector<SequenceId> sequences;
  std::vector<std::future<TurnResult>> turns;
  for (int i = 0; i < 8; i++) sequences.push_back(fixture.scheduler.open(1, 10 + i, {1 + i, 2, 3}));
  // Every second sequence ends early; the other four go on for long.
  for (int i = 0; i < 8; i++) turns.push_back(fixture.generate(sequences[i], request(i % 2 ? 150 : 3, i)));
  for (int i = 0; i < 8; i += 2) {
    turns[i].get();
    fixture.scheduler.close(sequences[i]);
  }
  for (int i = 1; i < 8; i += 2) CHECK(turns[i].get().tokens == expected({1 + i, 2, 3}, 150, i));
  const Stats stats = fixture.scheduler.stats();
  CHECK(stats.moves > 0);
  CHECK(fixture.counters.passes <= static_cast<int>(stats.batches) + 40);
}

void scoresAreTheLogprobsOfTokens() {
  std::mt19937_64 random(5);
  for (const bool canTrim : {true, false}) {
    Fixture fixture(2, canTrim);
    const std::vector<Token> tokens = prompt(random, 90);
    for (const int from : {1, 40, 89}) {
      const ScoreResult result = fixture.score(tokens, from, 3).get();
      CHECK(result.error.empty() && result.logprobs.size() == tokens.size() - from);
      CHECK(result.likeliest.size() == 3 * result.logprobs.size());
      for (size_t i = from; i < tokens.size(); i++) {
        const std::vector<float> logits = logitsAfter(stateAfter(tokens, i, 0));
        CHECK(std::abs(result.logprobs[i - from] - logprobOf(logits.data(), kVocabulary, tokens[i])) < 1e-6f);
        const Likely& likeliest = result.likeliest[3 * (i - from)];
        CHECK(logits[likeliest.token] == *std::max_element(logits.begin(), logits.end()));
        CHECK(std::abs(likeliest.logprob - logprobOf(logits.data(), kVocabulary, likeliest.token)) < 1e-6f);
      }
    }
  }
}

void threadsChangeBetweenBatches() {
  Fixture fixture(2);
  fixture.counters.microseconds = 500;
  Lanes& scheduler = fixture.scheduler;
  CHECK(scheduler.stats().threads == 4);
  auto turn = fixture.generate(scheduler.open(1, 1, {1, 2, 3}), request(60, 1));
  scheduler.setThreads(2);
  while (fixture.counters.threads == 0) std::this_thread::yield();
  CHECK(fixture.counters.threads == 2);
  scheduler.setThreads(9);
  CHECK(turn.get().tokens == expected({1, 2, 3}, 60, 1, 0));
  CHECK(fixture.counters.threads == 4);
  scheduler.setThreads(0);
  CHECK(fixture.generate(scheduler.open(1, 2, {9}), request(5, 2)).get().tokens == expected({9}, 5, 2, 0));
  CHECK(scheduler.stats().threads == 1);
}

/** Even where they are not dropped. */
void cellsOfAnotherAdapterAreNotBegunFrom() {
  FakeCounters counters;
  FakeDecoder decoder(2, kContext, true, counters);
  Slots slots(decoder, 2);
  const std::vector<Token> tokens = {1, 2, 3};
  const int slot = slots.place(1, tokens, 3, 1).slot;
  for (Token token : tokens) slots.append(slot, token);
  CHECK(slots.longestPrefix(tokens, 3) == 3 && !slots.foreign(slot));
  slots.newAdapter();
  CHECK(slots.longestPrefix(tokens, 3) == 0 && slots.foreign(slot));
  slots.append(slot, 4);
  CHECK(slots.foreign(slot));
  const int other = slots.place(2, tokens, 3, 1).slot;
  CHECK(slots.cells(other).empty());
  slots.append(other, 1);
  CHECK(!slots.foreign(other) && slots.longestPrefix(tokens, 3) == 1);
}

void commandsWaitTheirTurn() {
  Fixture fixture(2);
  fixture.counters.microseconds = 300;
  Lanes& scheduler = fixture.scheduler;
  const SequenceId sequence = scheduler.open(1, 1, {1, 2, 3});
  auto before = fixture.generate(sequence, request(20, 1));
  auto adapter = Fixture::command([&](CommandDone done) { scheduler.useAdapter("5", std::move(done)); });
  const SequenceId other = scheduler.open(1, 2, {1, 2, 3});
  auto after = fixture.generate(other, request(20, 1));
  CHECK(before.get().tokens == expected({1, 2, 3}, 20, 1, 0));
  CHECK(adapter.get().empty());
  CHECK(after.get().tokens == expected({1, 2, 3}, 20, 1, 5));
  CHECK(scheduler.adapter() == "5");
  CHECK(Fixture::command([&](CommandDone done) { scheduler.useAdapter("broken", std::move(done)); }).get() ==
        "the adapter is broken");
  CHECK(scheduler.adapter() == "5");

  auto running = fixture.generate(other, request(20, 1));
  auto sleeping = Fixture::command([&](CommandDone done) { scheduler.sleep(true, std::move(done)); });
  auto refused = fixture.generate(sequence, request(20, 1));
  CHECK(running.get().error.empty());
  CHECK(sleeping.get().empty());
  CHECK(refused.get().error == "the engine sleeps; wake() it first");
  auto waking = Fixture::command([&](CommandDone done) { scheduler.wake(0, std::move(done)); });
  auto again = fixture.generate(scheduler.open(1, 3, {9}), request(5, 2));
  CHECK(waking.get().empty());
  CHECK(again.get().tokens == expected({9}, 5, 2, 5));
}

void aFailedBatchIsToldAndForgotten() {
  Fixture fixture(2);
  const SequenceId sequence = fixture.scheduler.open(1, 1, {1, 2, 3});
  fixture.counters.failIn = 5;
  const TurnResult failed = fixture.generate(sequence, request(20, 1)).get();
  CHECK(failed.error == "the fake decoder was told to fail" && failed.tokens.size() == 4);
  std::vector<Token> tokens{1, 2, 3};
  tokens.insert(tokens.end(), failed.tokens.begin(), failed.tokens.end());
  CHECK(fixture.generate(sequence, request(5, 1)).get().tokens == expected(tokens, 5, 1));
}

void stoppingAnswersEverybody() {
  auto fixture = std::make_unique<Fixture>(2);
  fixture->counters.microseconds = 500;
  std::vector<std::future<TurnResult>> turns;
  for (int i = 0; i < 10; i++) turns.push_back(fixture->generate(fixture->scheduler.open(1, i, {1}), request(100, i)));
  auto adapter = Fixture::command([&](CommandDone done) { fixture->scheduler.useAdapter("1", std::move(done)); });
  fixture->scheduler.stop();
  for (auto& turn : turns) CHECK(turn.get().stop == Stop::cancelled);
  CHECK(adapter.get() == "the engine was closed");
  CHECK(fixture->generate(1, request(1, 1)).get().error == "the engine was closed");
}

void lanesShareTheWork() {
  Fixture fixture(8, true, 1000, 2);
  fixture.counters.microseconds = 1000;
  CHECK(fixture.scheduler.stats().threads == 8);  // four a lane
  std::vector<std::future<TurnResult>> turns;
  for (int i = 0; i < 8; i++) {
    turns.push_back(fixture.generate(fixture.scheduler.open(1, 10 + i, {1 + i, 2, 3}), request(100, i)));
  }
  const SequenceId unasked = fixture.scheduler.open(1, 20, {1});
  for (int i = 0; i < 8; i++) CHECK(turns[i].get().tokens == expected({1 + i, 2, 3}, 100, i));
  // Both lanes have taken part: each needs 100 batches for its sequences.
  const Stats stats = fixture.scheduler.stats();
  CHECK(stats.batches >= 200 && stats.decoded == 800 && stats.open == 9);
  fixture.scheduler.close(unasked);
  fixture.scheduler.closeAll(1);
  CHECK(fixture.generate(unasked, request(1, 1)).get().error == "the sequence is closed");
  while (fixture.scheduler.stats().open > 0) std::this_thread::yield();
}

void aGroupStaysInALane() {
  std::mt19937_64 random(3);
  Fixture fixture(12, true, 1000, 2);
  const auto turnsOf = [&](int members) {
    const std::vector<Token> common = prompt(random, 100);
    const GroupId group = fixture.scheduler.newGroup();
    std::vector<SequenceId> opened;
    for (int i = 0; i < members; i++) opened.push_back(fixture.scheduler.open(1, group, common));
    const uint64_t before = fixture.scheduler.stats().prefilled;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < members; i++) turns.push_back(fixture.generate(opened[i], request(5, i)));
    for (int i = 0; i < members; i++) CHECK(turns[i].get().tokens == expected(common, 5, i));
    for (SequenceId sequence : opened) fixture.scheduler.close(sequence);
    return (fixture.scheduler.stats().prefilled - before) / 100;
  };
  CHECK(turnsOf(3) == 1);
  // All of it in one lane would leave the other with nothing to do.
  CHECK(turnsOf(12) == 2);
}

void commandsReachAllLanes() {
  Fixture fixture(4, true, 1000, 2);
  Lanes& scheduler = fixture.scheduler;
  std::vector<SequenceId> sequences;
  for (int i = 0; i < 4; i++) sequences.push_back(scheduler.open(1, 10 + i, {1, 2, 3}));
  std::vector<std::future<TurnResult>> turns;
  const auto generate = [&] {
    turns.clear();
    for (SequenceId sequence : sequences) turns.push_back(fixture.generate(sequence, request(5, 1)));
  };
  generate();
  auto adapter = Fixture::command([&](CommandDone done) { scheduler.useAdapter("5", std::move(done)); });
  for (auto& turn : turns) CHECK(turn.get().tokens == expected({1, 2, 3}, 5, 1, 0));
  CHECK(adapter.get().empty());
  std::vector<Token> tokens{1, 2, 3};
  for (Token token : expected(tokens, 5, 1, 0)) tokens.push_back(token);
  generate();
  for (auto& turn : turns) CHECK(turn.get().tokens == expected(tokens, 5, 1, 5));
  CHECK(Fixture::command([&](CommandDone done) { scheduler.useAdapter("broken", std::move(done)); }).get() ==
        "the adapter is broken");
  CHECK(scheduler.adapter() == "5");
  CHECK(Fixture::command([&](CommandDone done) { scheduler.sleep(true, std::move(done)); }).get().empty());
  generate();
  for (auto& turn : turns) CHECK(turn.get().error == "the engine sleeps; wake() it first");
  CHECK(Fixture::command([&](CommandDone done) { scheduler.wake(0, std::move(done)); }).get().empty());
  scheduler.stop();
  generate();
  for (auto& turn : turns) CHECK(turn.get().error == "the engine was closed");
  CHECK(Fixture::command([&](CommandDone done) { scheduler.wake(0, std::move(done)); }).get() == "the engine was closed");
}

void batchesPassATurnstileOneAtATime() {
  std::mt19937_64 random(9);
  FakeCounters counters;
  counters.microseconds = 200;
  std::vector<Lane> made = Fixture::lanesOf(4, true, 1000, 2, {}, counters);
  const auto turnstile = std::make_shared<Turnstile>();
  for (Lane& lane : made) lane.turnstile = turnstile;
  Lanes lanes(std::move(made));
  std::vector<std::vector<Token>> prompts;
  std::vector<std::future<TurnResult>> turns;
  for (int i = 0; i < 6; i++) {
    prompts.push_back(prompt(random, 20));
    const auto result = std::make_shared<std::promise<TurnResult>>();
    turns.push_back(result->get_future());
    lanes.generate(lanes.open(1, lanes.newGroup(), prompts.back()), request(30, i),
                   [result](TurnResult answer) { result->set_value(std::move(answer)); });
  }
  for (int i = 0; i < 6; i++) CHECK(turns[i].get().tokens == expected(prompts[i], 30, i));
  CHECK(counters.together == 1);
}

/** Many owners open, generate, cancel, score and vanish at once, while adapters change and the engine sleeps. */
void everythingAtOnce(int slots, bool canTrim, int lanes, double forSeconds, Shapes shapes = {}) {
  Fixture fixture(slots, canTrim, 2, lanes, shapes);
  fixture.counters.microseconds = 50;
  Lanes& scheduler = fixture.scheduler;
  std::atomic<bool> over{false};
  std::atomic<int> asked{0}, answered{0}, finished{0};

  const auto owner = [&](OwnerId id) {
    std::mt19937_64 random(id);
    while (!over) {
      const std::vector<Token> common = prompt(random, 5 + static_cast<int>(random() % 60));
      const GroupId group = scheduler.newGroup();
      std::vector<std::thread> members;
      const bool vanish = random() % 4 == 0;
      for (int m = 0; m < 4; m++) {
        const uint64_t seed = random() % 1000;
        members.emplace_back([&, seed] {
          std::mt19937_64 own(seed);
          std::vector<Token> tokens = common;
          const SequenceId sequence = scheduler.open(id, group, tokens);
          for (int turn = 0; turn < 3; turn++) {
            std::vector<Token> append = turn == 0 ? std::vector<Token>{} : prompt(own, static_cast<int>(own() % 8));
            std::promise<TurnResult> promise;
            asked++;
            const TurnId underWay =
                scheduler.generate(sequence, request(1 + own() % 20, seed, append), [&](TurnResult result) {
                  answered++;
                  promise.set_value(std::move(result));
                });
            if (own() % 8 == 0) scheduler.cancel(underWay);
            const TurnResult result = promise.get_future().get();
            if (result.error == "the sequence is closed") return;
            if (!result.error.empty()) {
              CHECK(result.error == "the engine sleeps; wake() it first" ||
                    result.error == "the fake decoder was told to fail" || result.error == "told to fail");
            }
            if (result.stop != Stop::context) tokens.insert(tokens.end(), append.begin(), append.end());
            bool matches = false;
            for (uint64_t adapter = 0; adapter < 3; adapter++) {
              matches = matches || result.tokens == expected(tokens, result.tokens.size(), seed, adapter);
            }
            CHECK(matches);
            tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
            finished++;
          }
          scheduler.close(sequence);
        });
      }
      if (vanish) scheduler.closeAll(id);
      for (std::thread& member : members) member.join();
    }
  };

  std::vector<std::thread> threads;
  for (OwnerId id = 1; id <= 4; id++) threads.emplace_back(owner, id);
  threads.emplace_back([&] {
    std::mt19937_64 random(99);
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
      const auto wait = [&](auto start) { CHECK(Fixture::command(start).get().find("closed") == std::string::npos); };
      switch (random() % 9) {
        case 0:
          wait([&](CommandDone done) { scheduler.sleep(random() % 2 == 0, std::move(done)); });
          if (random() % 2 == 0) wait([&](CommandDone done) { scheduler.useAdapter("1", std::move(done)); });
          while (!Fixture::command([&](CommandDone done) {
                    const int most = slots - lanes + 1;
                    scheduler.wake(random() % 2 == 0 ? 0 : lanes + static_cast<int>(random() % most), std::move(done));
                  }).get().empty()) {
          }
          break;
        case 1:
          fixture.counters.failIn = 3;
          break;
        case 2: {
          constexpr Call calls[] = {Call::copy, Call::trim, Call::clear, Call::load, Call::swap, Call::wake, Call::warm};
          fixture.counters.fail(calls[random() % 7], 1, static_cast<int>(random() % (lanes + 1)) - 1);
          break;
        }
        case 3:
          scheduler.stats();
          scheduler.setThreads(static_cast<int>(random() % 6));
          fixture.score(prompt(random, 80), 1).get();
          break;
        default: {
          const std::string adapter = random() % 3 == 0 ? "" : std::to_string(1 + random() % 2);
          wait([&](CommandDone done) { scheduler.useAdapter(adapter, std::move(done)); });
        }
      }
    }
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(forSeconds));
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(asked == answered);
  CHECK(finished > 0);
  const Stats stats = scheduler.stats();
  const auto shown = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  std::printf("  %d slots%s in %d lanes: %d turns, %llu batches, %llu forks, %llu moves, %llu evicted\n",
              slots, canTrim ? "" : " (recurrent)", lanes, finished.load(), shown(stats.batches), shown(stats.forks),
              shown(stats.moves), shown(stats.evicted));
}

}  // namespace

int main(int argc, char** argv) {
  const double forSeconds = argc > 1 ? std::atof(argv[1]) : 3;
  runTest("a group's prompt is evaluated once", aGroupsPromptIsEvaluatedOnce);
  runTest("a state is copied where its prefix ends", aStateIsCopiedWhereItsPrefixEnds);
  runTest("turns keep their KV", turnsKeepTheirKv);
  runTest("turns are heard as they are sampled", turnsAreHeardAsTheyAreSampled);
  runTest("turns end for their reasons", turnsEndForTheirReasons);
  runTest("a limit counts what a turn uses", aLimitCountsWhatATurnUses);
  runTest("a batch that is held up counts a little", aBatchThatIsHeldUpCountsALittle);
  runTest("slow batches are shortened", slowBatchesAreShortened);
  runTest("a pace is found", aPaceIsFound);
  runTest("idle sequences give way", idleSequencesGiveWay);
  runTest("slots stay dense", slotsStayDense);
  runTest("scores are the logprobs of tokens", scoresAreTheLogprobsOfTokens);
  runTest("threads change between batches", threadsChangeBetweenBatches);
  runTest("cells of another adapter are not begun from", cellsOfAnotherAdapterAreNotBegunFrom);
  runTest("commands wait their turn", commandsWaitTheirTurn);
  runTest("a failed batch is told and forgotten", aFailedBatchIsToldAndForgotten);
  runTest("stopping answers everybody", stoppingAnswersEverybody);
  runTest("lanes share the work", lanesShareTheWork);
  runTest("a group stays in a lane while that has room", aGroupStaysInALane);
  runTest("commands reach all lanes", commandsReachAllLanes);
  runTest("batches pass a turnstile one at a time", batchesPassATurnstileOneAtATime);
  testConstraints();
  testDeviceRows();
  testFailures();
  testPool();
  testReports();
  testShapes();
  runTest("everything at once", [&] {
    everythingAtOnce(3, true, 1, forSeconds);
    everythingAtOnce(16, true, 1, forSeconds);
    everythingAtOnce(4, false, 1, forSeconds);
    everythingAtOnce(16, false, 1, forSeconds, {false, true});
    everythingAtOnce(7, true, 3, forSeconds);
    everythingAtOnce(8, true, 1, forSeconds, {false, true});
    everythingAtOnce(8, true, 1, forSeconds, {true, true});
    everythingAtOnce(8, true, 1, forSeconds, {true, false});
    everythingAtOnce(8, true, 2, forSeconds, {true, true, true});
    everythingAtOnce(8, true, 1, forSeconds, {false, false, true});
  });
  return 0;
}
