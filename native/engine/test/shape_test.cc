// The shapes of batches: the passes that they take, and how often one is like the one before.
#include "../passes.h"
#include "../shape.h"
#include "fixture.h"

namespace hone {
namespace {

/** A batch with so many tokens of each slot. */
Batch batchOf(const std::vector<int>& tokens) {
  Batch batch;
  for (int slot = 0; slot < static_cast<int>(tokens.size()); slot++) {
    for (int i = 0; i < tokens[slot]; i++) batch.add(0, i, slot, true);
  }
  return batch;
}

void passesAreCountedAsLlamaCuts() {
  const auto split = [](const std::vector<int>& tokens) { return passesOf(batchOf(tokens), 32, false).size(); };
  CHECK(split({1, 1, 1, 1}) == 1);
  CHECK(split({1, 0, 1, 1}) == 2);
  CHECK(split({1, 5, 1, 1}) == 2);     // one of each, then the rest of the prompt
  CHECK(split({1, 5, 1, 5}) == 3);     // prompts that are no neighbours
  CHECK(split({1, 5, 5, 1}) == 2);     // neighbours of one length
  CHECK(split({1, 5, 6, 1}) == 3);     // of different ones
  CHECK(split({32}) == 1 && split({33}) == 2);
  CHECK(split({20, 20}) == 2);         // 16 of each, then 4
  CHECK(passesOf(batchOf({1, 0, 7, 1, 0, 9}), 32, true).size() == 1);
  CHECK(passesOf(batchOf({30, 0, 3}), 32, true).size() == 2);
}

/** Turns of a few tokens, some with a tool's answer before them: who runs changes all the time. */
Stats play(Fixture& fixture, int slots) {
  std::vector<std::thread> members;
  for (int member = 0; member < slots; member++) {
    members.emplace_back([&fixture, member] {
      std::mt19937_64 random(member);
      std::vector<Token> tokens = prompt(random, 10);
      const SequenceId sequence = fixture.scheduler.open(1, 100 + member, tokens);
      for (int turn = 0; turn < 12; turn++) {
        const std::vector<Token> append = turn % 6 == 5 ? prompt(random, 6) : std::vector<Token>{};
        const int count = 1 + static_cast<int>(random() % 12);
        const TurnResult result = fixture.generate(sequence, request(count, member, append)).get();
        tokens.insert(tokens.end(), append.begin(), append.end());
        CHECK(result.error.empty() && result.tokens == expected(tokens, count, member));
        tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
        // Tools take their time.
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      }
      fixture.scheduler.close(sequence);
    });
  }
  for (std::thread& member : members) member.join();
  const Stats stats = fixture.scheduler.stats();
  std::printf("  %llu batches, %llu passes, %llu graphs reused, %llu moves\n",
              static_cast<unsigned long long>(stats.batches), static_cast<unsigned long long>(stats.passes),
              static_cast<unsigned long long>(stats.graphsReused), static_cast<unsigned long long>(stats.moves));
  return stats;
}

void steadyBatchesHaveTheShapeOfTheOneBefore() {
  Fixture fixture(8, true, 1000, 1, {false, true});
  fixture.counters.microseconds = 300;
  const Stats steady = play(fixture, 8);
  // Eight slots of eight: every batch without a prompt has the same shape. 8 × 3 batches have a prompt or a tool's
  // answer, each of which makes two shapes.
  CHECK(steady.batches - steady.graphsReused <= 2 * 8 * 3 + 1);
  Fixture changing(8);
  changing.counters.microseconds = 300;
  const Stats other = play(changing, 8);
  CHECK(other.graphsReused * steady.batches < steady.graphsReused * other.batches);
}

/** Sequences that end early leave gaps, which padding closes: the others move when the shape shrinks, and only those beyond it. */
void slotsMoveWhereTheShapeShrinks() {
  const auto movesAfter = [](const std::vector<int>& early) {
    Fixture fixture(8, true, 1000, 1, {false, true});
    fixture.counters.microseconds = 300;
    std::vector<SequenceId> sequences;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < 8; i++) sequences.push_back(fixture.scheduler.open(1, 10 + i, {1 + i, 2, 3}));
    const auto isEarly = [&](int i) { return std::find(early.begin(), early.end(), i) != early.end(); };
    for (int i = 0; i < 8; i++) turns.push_back(fixture.generate(sequences[i], request(isEarly(i) ? 20 : 180, i)));
    for (int i : early) {
      turns[i].get();
      fixture.scheduler.close(sequences[i]);
    }
    for (int i = 0; i < 8; i++) {
      if (!isEarly(i)) CHECK(turns[i].get().tokens == expected({1 + i, 2, 3}, 180, i));
    }
    const Stats stats = fixture.scheduler.stats();
    CHECK(stats.passes == stats.batches && stats.paddingRows > 0);
    return stats.moves;
  };
  CHECK(movesAfter({3, 5}) == 0);        // six need a shape of eight
  CHECK(movesAfter({0, 2, 4, 6}) == 2);  // of four, and two are beyond the first four slots
}

/** Where passes mix, a prompt's pieces are as long as its slot's part of them, beside the token of another sequence. */
void piecesOfAPromptAreBesideOtherTokens() {
  Fixture fixture(2, true, 1000, 1, {false, true, false, 32, 1000, 8});
  fixture.counters.microseconds = 300;
  const SequenceId one = fixture.scheduler.open(1, 10, {1});
  std::future<TurnResult> running = fixture.generate(one, request(150, 1));
  const std::vector<Token> long40(40, 5);
  const SequenceId other = fixture.scheduler.open(1, 11, long40);
  CHECK(fixture.generate(other, request(3, 2)).get().tokens == expected(long40, 3, 2));
  CHECK(running.get().tokens == expected({1}, 150, 1));
  CHECK(fixture.scheduler.stats().promptPasses == 0);
  CHECK(fixture.counters.largest == 1 + 8);
}

/** Prompts come and go between the others: these keep their shape, in one pass each. */
void promptsLeaveTheShapeOfTheOthers() {
  for (const bool pooled : {false, true}) {
    Fixture fixture(8, true, 1000, 1, {pooled, true});
    fixture.counters.microseconds = 300;
    const Stats stats = play(fixture, 8);
    const int rows = fixture.counters.withRows;
    CHECK(stats.promptPasses > 0 && stats.batches == stats.promptPasses + static_cast<uint64_t>(rows));
    CHECK(stats.passes == stats.batches);
    // Eight sequences with pauses: the shape grows to eight and stays, but where few ran for long.
    CHECK(10 * fixture.counters.replayed >= 9 * rows);
    CHECK(stats.ownedCells > 0);
  }
}

/** Between two tokens of running turns prompts are evaluated up to `promptBatch` tokens, and, without a pool, to the end of a pass. */
void promptsDoNotStopRunningTurns() {
  std::mt19937_64 random(4);
  for (const bool pooled : {false, true}) {
    Fixture fixture(8, true, 1000, 1, {pooled, true});
    fixture.counters.microseconds = 100;
    const SequenceId running = fixture.scheduler.open(1, 1, {1, 2, 3});
    auto turn = fixture.generate(running, request(150, 3));
    std::vector<std::vector<Token>> prompts;
    std::vector<std::future<TurnResult>> others;
    for (int i = 0; i < 6; i++) {
      prompts.push_back(prompt(random, 120 + i));
      others.push_back(fixture.generate(fixture.scheduler.open(1, 2 + i, prompts.back()), request(5, i)));
    }
    CHECK(turn.get().tokens == expected({1, 2, 3}, 150, 3));
    for (int i = 0; i < 6; i++) CHECK(others[i].get().tokens == expected(prompts[i], 5, i));
    const Stats stats = fixture.scheduler.stats();
    // 738 tokens of prompts, 32 at most in a pass; some are evaluated beside the running turn.
    CHECK(stats.promptPasses > 0 && stats.promptPasses <= 6 * 4 + 738 / 32);
  }
}

void aPoolTakesOnePassWhateverRuns() {
  for (const bool steady : {false, true}) {
    Fixture fixture(8, true, 1000, 1, {true, steady});
    fixture.counters.microseconds = 300;
    const Stats stats = play(fixture, 8);
    CHECK(stats.passes == stats.batches);
    CHECK(stats.moves == 0);
  }
}

void aPromptAloneFillsThePassesOfAPool() {
  std::mt19937_64 random(3);
  for (const bool steady : {false, true}) {
    Fixture fixture(8, true, 1000, 1, {true, steady});
    const std::vector<Token> tokens = prompt(random, 96);
    const SequenceId sequence = fixture.scheduler.open(1, 1, tokens);
    CHECK(fixture.generate(sequence, request(1, 3)).get().tokens == expected(tokens, 1, 3));
    const Stats stats = fixture.scheduler.stats();
    CHECK(stats.batches == (steady ? 4 : 3) && stats.passes == stats.batches);  // of 32 tokens each; the last one apart
  }
}

void shapesAreFewAndNotMuchLarger() {
  CHECK(shapeOf(1) == 1 && shapeOf(3) == 4 && shapeOf(8) == 8 && shapeOf(9) == 16 && shapeOf(33) == 48);
  CHECK(shapeOf(64) == 64 && shapeOf(65) == 96 && shapeOf(257) == 288 && shapeOf(512) == 512);
}

/** A score without rows in a batch must not be evaluated to close a gap: its log-probability would be lost. */
void scoresThatWaitForRowsLoseNone() {
  std::mt19937_64 random(9);
  for (const Shapes shapes : {Shapes{false, false}, Shapes{false, true}, Shapes{true, true}}) {
    Fixture fixture(3, true, 1000, 1, shapes);
    fixture.counters.microseconds = 200;
    for (int round = 0; round < 10; round++) {
      const std::vector<Token> first = prompt(random, 90);
      const std::vector<Token> second = prompt(random, 90);
      auto one = fixture.score(first, 1);
      auto two = fixture.score(second, 1);
      const SequenceId sequence = fixture.scheduler.open(1, 1000 + round, {1, 2, 3});
      auto turn = fixture.generate(sequence, request(60, 3));
      CHECK(one.get().logprobs.size() == 89 && two.get().logprobs.size() == 89);
      CHECK(turn.get().tokens == expected({1, 2, 3}, 60, 3));
      fixture.scheduler.close(sequence);
    }
  }
}

}  // namespace

void testShapes() {
  runTest("passes are counted as llama.cpp cuts", passesAreCountedAsLlamaCuts);
  runTest("where passes mix, pieces of a prompt are beside other tokens", piecesOfAPromptAreBesideOtherTokens);
  runTest("steady batches have the shape of the one before", steadyBatchesHaveTheShapeOfTheOneBefore);
  runTest("prompts leave the shape of the others", promptsLeaveTheShapeOfTheOthers);
  runTest("slots move where the shape shrinks", slotsMoveWhereTheShapeShrinks);
  runTest("prompts do not stop running turns", promptsDoNotStopRunningTurns);
  runTest("a pool takes one pass whatever runs", aPoolTakesOnePassWhateverRuns);
  runTest("a prompt alone fills the passes of a pool", aPromptAloneFillsThePassesOfAPool);
  runTest("shapes are few and not much larger", shapesAreFewAndNotMuchLarger);
  runTest("scores that wait for rows lose none", scoresThatWaitForRowsLoseNone);
}

}  // namespace hone
