// Guessed tokens: what is sampled is the same with them as without, whatever ends a turn and whatever shares its batch.
#include <algorithm>
#include <cmath>

#include "../draft.h"
#include "../draft_length.h"
#include "fixture.h"

namespace hone {
namespace {

constexpr Shapes kThree{false, false, 3};

void guessesAreWhatFollowedBefore() {
  Drafter drafter;
  std::vector<Guess> guesses;
  drafter.guess({1, 2, 3}, 2, guesses);
  CHECK(guesses.size() == 2 && guesses[0].token == -1 && drafter.chance(guesses[0].kind) == 0);
  drafter.learn({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  drafter.guess({9, 3, 4}, 3, guesses);
  CHECK(guesses[0].token == 5 && guesses[1].token == 6 && guesses[2].token == 7);
  // Nothing followed the 8.
  drafter.guess({6, 7}, 3, guesses);
  CHECK(guesses[0].token == 8 && guesses[1].token == -1 && guesses[2].token == -1);
  // The longer the common text, the more it says; of two texts the last one counts.
  drafter.learn({20, 3, 4, 30}, 0);
  drafter.guess({2, 3, 4}, 1, guesses);
  CHECK(guesses[0].token == 5);
  drafter.guess({3, 4}, 1, guesses);
  CHECK(guesses[0].token == 30);
  // Only tokens from an index on are new.
  drafter.learn({40, 41, 42}, 2);
  drafter.guess({40}, 1, guesses);
  CHECK(guesses[0].token == -1);
  drafter.guess({40, 41}, 1, guesses);
  CHECK(guesses[0].token == 42);
  const double before = drafter.chance(guesses[0].kind);
  drafter.note(guesses[0], true);
  CHECK(drafter.chance(guesses[0].kind) > before);
  for (int i = 0; i < 1000; i++) drafter.note(guesses[0], false);
  CHECK(drafter.chance(guesses[0].kind) < 0.01);
}

/** The choice of most of the last batches, where a pass costs so much, and each guess is right with this chance. */
int chosen(DraftLength& length, int batches, double pass, double row, double chance, int sequences = 4) {
  std::vector<int> last(5);
  for (int batch = 0; batch < batches; batch++) {
    std::vector<DraftChoice> choices;
    double tokens = 0, right = 1;
    for (int guesses = 0; guesses <= 4; guesses++) {
      tokens += right * sequences;
      right *= chance;
      choices.push_back({tokens, {sequences * (1 + guesses)}});
    }
    const size_t choice = length.choose(choices, true);
    const int rows = choices[choice].passes[0];
    length.note({rows}, pass + row * rows);
    if (batch >= batches - 20) last[choice]++;
  }
  // At most three of them are trials.
  const auto most = std::max_element(last.begin(), last.end());
  CHECK(*most >= 17);
  return static_cast<int>(most - last.begin());
}

void asManyAreGuessedAsPay() {
  // A row more costs nothing, or all.
  {
    DraftLength length;
    CHECK(chosen(length, 200, 1, 0, 0.6) == 4);
  }
  {
    DraftLength length;
    CHECK(chosen(length, 200, 0, 1, 0.01) == 0);
    // Another program leaves: passes cost less, and rows nothing.
    CHECK(chosen(length, 400, 0.5, 0, 0.6) == 4);
    // The text becomes a different one.
    CHECK(chosen(length, 400, 0.1, 1, 0.01) == 0);
    // The figures of few rows are old when these become cheap.
    CHECK(chosen(length, 400, 1, 0, 0.9) == 4);
    CHECK(chosen(length, 400, 0, 1, 0.5) == 0);
  }
  PassCosts costs;
  CHECK(costs.of(3) == 0);
  costs.note({4}, 2);
  CHECK(costs.of(4) == 2 && costs.of(2) == 2 && costs.of(8) == 4);
  costs.note({8}, 3);
  CHECK(costs.of(6) == 2.5);
  // Passes of one batch share its time as expected of each.
  costs.note({4, 8}, 10);
  CHECK(costs.of(4) > 2 && costs.of(8) > 3 && costs.of(8) / costs.of(4) == 1.5);
}

/** The same prompt and seed again: every guess is right. */
void aTextThatRepeatsTakesFewerBatches() {
  std::mt19937_64 random(3);
  for (const Shapes shapes : {kThree, Shapes{true, false, 3}, Shapes{false, false, 3, true}}) {
    Fixture fixture(3, true, 1000, 1, shapes);
    const std::vector<Token> tokens = prompt(random, 20);
    uint64_t before = 0;
    for (int round = 0; round < 4; round++) {
      const SequenceId sequence = fixture.scheduler.open(1, 50 + round, tokens);
      const TurnResult result = fixture.generate(sequence, request(61, 5)).get();
      CHECK(result.stop == Stop::length && result.tokens == expected(tokens, 61, 5));
      for (size_t i = 0; i < result.tokens.size(); i++) {
        std::vector<Token> all = tokens;
        all.insert(all.end(), result.tokens.begin(), result.tokens.begin() + i);
        const std::vector<float> logits = logitsAfter(stateAfter(all, all.size(), 0));
        CHECK(std::abs(result.logprobs[i] - logprobOf(logits.data(), kVocabulary, result.tokens[i])) < 1e-5f);
      }
      const uint64_t batches = fixture.scheduler.stats().batches;
      if (round > 0) CHECK(batches - before <= 61 / 4 + 3);
      before = batches;
      fixture.scheduler.close(sequence);
    }
    const Stats stats = fixture.scheduler.stats();
    CHECK(stats.decoded == 4 * 61 && stats.accepted >= 3 * 43 && stats.drafted >= stats.accepted);
  }
}

void turnsEndWithinGuesses() {
  std::mt19937_64 random(4);
  const std::vector<Token> tokens = prompt(random, 12);
  const std::vector<Token> text = expected(tokens, 40, 7);
  Fixture fixture(2, true, 1000, 1, kThree);
  const SequenceId teacher = fixture.scheduler.open(1, 1, tokens);
  fixture.generate(teacher, request(40, 7)).get();
  fixture.scheduler.close(teacher);
  for (int first = 1; first <= 12; first++) {
    // By the number of tokens, then by a stop token; the next turn goes on from there.
    const SequenceId counted = fixture.scheduler.open(1, 10 + first, tokens);
    std::vector<Sampled> heard;
    TurnRequest turn = request(first, 7);
    turn.sampled = [&](Sampled sampled) { heard.push_back(std::move(sampled)); };
    const TurnResult one = fixture.generate(counted, turn).get();
    CHECK(one.stop == Stop::length && std::equal(one.tokens.begin(), one.tokens.end(), text.begin(), text.begin() + first));
    CHECK(heard.size() == one.tokens.size());
    for (size_t i = 0; i < heard.size(); i++) CHECK(heard[i].token == text[i] && heard[i].logprob == one.logprobs[i]);
    const TurnResult two = fixture.generate(counted, request(40 - first, 7)).get();
    CHECK(std::equal(two.tokens.begin(), two.tokens.end(), text.begin() + first, text.end()));
    CHECK(two.length == 12 + 40);
    fixture.scheduler.close(counted);

    const SequenceId stopped = fixture.scheduler.open(1, 30 + first, tokens);
    TurnRequest stopping = request(40, 7);
    stopping.stop = {text[first]};
    const size_t end = std::find(text.begin(), text.end(), text[first]) - text.begin() + 1;
    const TurnResult three = fixture.generate(stopped, stopping).get();
    CHECK(three.stop == Stop::token && three.tokens.size() == end);
    const std::vector<Token> append = prompt(random, 3);
    std::vector<Token> all = tokens;
    all.insert(all.end(), three.tokens.begin(), three.tokens.end());
    all.insert(all.end(), append.begin(), append.end());
    CHECK(fixture.generate(stopped, request(9, 7, append)).get().tokens == expected(all, 9, 7));
    fixture.scheduler.close(stopped);
  }
  CHECK(fixture.scheduler.stats().accepted > 0);
}

void aFullContextEndsWithinGuesses() {
  std::mt19937_64 random(5);
  for (const bool paired : {false, true}) {
    Fixture fixture(2, true, 1000, 1, {false, false, 3, paired});
    for (int left = 1; left <= 9; left++) {
      const std::vector<Token> tokens = prompt(random, kContext - left);
      for (int round = 0; round < 2; round++) {
        const SequenceId sequence = fixture.scheduler.open(1, 100 * left + round, tokens);
        const TurnResult result = fixture.generate(sequence, request(100, 8)).get();
        CHECK(result.stop == Stop::context && result.tokens == expected(tokens, left, 8));
        fixture.scheduler.close(sequence);
      }
    }
    CHECK(fixture.scheduler.stats().accepted > 0);
  }
}

/** Prompts, scores, gaps, cancelled turns and forks beside sequences with guesses. */
void othersShareTheBatch() {
  std::mt19937_64 random(6);
  for (const Shapes shapes : {kThree, Shapes{false, false, 1}, Shapes{true, false, 3}, Shapes{false, false, kAutoDraft}}) {
    Fixture fixture(6, true, 1000, 1, shapes);
    fixture.counters.microseconds = 100;
    for (int round = 0; round < 6; round++) {
      const std::vector<Token> common = prompt(random, 40);
      const GroupId group = fixture.scheduler.newGroup();
      std::vector<SequenceId> members;
      std::vector<std::future<TurnResult>> turns;
      std::vector<TurnId> ids(6);
      for (int i = 0; i < 6; i++) {
        members.push_back(fixture.scheduler.open(1, group, common));
        // Two members write the same.
        turns.push_back(fixture.generate(members[i], request(12 + 6 * i, i / 2), &ids[i]));
      }
      fixture.scheduler.cancel(ids[4]);
      const std::vector<Token> scored = prompt(random, 30);
      auto score = fixture.score(scored, 1);
      for (int i = 0; i < 6; i++) {
        const TurnResult result = turns[i].get();
        CHECK(result.tokens == expected(common, result.tokens.size(), i / 2));
        CHECK(i == 4 || result.tokens.size() == 12 + 6 * static_cast<size_t>(i));
        if (i % 2 == 0) continue;
        // A fork of what was written with guesses.
        std::vector<Token> longer = common;
        longer.insert(longer.end(), result.tokens.begin(), result.tokens.end());
        const SequenceId fork = fixture.scheduler.open(1, group, longer);
        CHECK(fixture.generate(fork, request(9, 70 + i)).get().tokens == expected(longer, 9, 70 + i));
        fixture.scheduler.close(fork);
      }
      CHECK(score.get().logprobs.size() == 29);
      for (SequenceId member : members) fixture.scheduler.close(member);
    }
    CHECK(shapes.draft < 0 || fixture.scheduler.stats().accepted > 0);
  }
}

void anAdapterChangesWhatIsSampled() {
  std::mt19937_64 random(8);
  Fixture fixture(2, true, 1000, 2, kThree);
  const std::vector<Token> tokens = prompt(random, 15);
  const auto writes = [&](uint64_t adapter) {
    for (int round = 0; round < 2; round++) {
      const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
      CHECK(fixture.generate(sequence, request(40, 3)).get().tokens == expected(tokens, 40, 3, adapter));
      fixture.scheduler.close(sequence);
    }
  };
  writes(0);
  Fixture::command([&](CommandDone done) { fixture.scheduler.useAdapter("5", std::move(done)); }).get();
  writes(5);
  CHECK(fixture.scheduler.stats().accepted > 0);
}

/** Failures of a batch, and of taking back guesses. */
void failuresEndTurnsAsBefore() {
  std::mt19937_64 random(9);
  Fixture fixture(2, true, 1000, 1, kThree);
  const std::vector<Token> tokens = prompt(random, 10);
  for (const bool trims : {false, true}) {
    std::vector<Token> all = tokens;
    const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
    if (trims) fixture.counters.fail(Call::trim);
    else fixture.counters.failIn = 4;
    const TurnResult failed = fixture.generate(sequence, request(40, 21)).get();
    CHECK(failed.error == (trims ? "told to fail" : "the fake decoder was told to fail"));
    CHECK(failed.tokens == expected(tokens, failed.tokens.size(), 21));
    all.insert(all.end(), failed.tokens.begin(), failed.tokens.end());
    CHECK(fixture.generate(sequence, request(9, 21)).get().tokens == expected(all, 9, 21));
    fixture.scheduler.close(sequence);
  }
}

void nothingIsGuessedWhereItCannotBeTakenBack() {
  std::mt19937_64 random(10);
  const std::vector<Token> tokens = prompt(random, 10);
  const auto drafted = [&](bool canTrim, Shapes shapes) {
    Fixture fixture(2, canTrim, 1000, 1, shapes);
    for (int round = 0; round < 2; round++) {
      const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), tokens);
      CHECK(fixture.generate(sequence, request(30, 2)).get().tokens == expected(tokens, 30, 2));
      fixture.scheduler.close(sequence);
    }
    return fixture.scheduler.stats().drafted;
  };
  CHECK(drafted(true, kThree) > 0);
  CHECK(drafted(false, {false, false, 3, true}) == 0);
  CHECK(drafted(true, {false, true, 3, true}) == 0);
  // Without guesses each token still has a row beside it where it was asked for.
  CHECK(drafted(true, {false, false, 0, true}) == 2 * 29 + 1);
}

}  // namespace

void testDrafts() {
  runTest("guesses are what followed before", guessesAreWhatFollowedBefore);
  runTest("as many tokens are guessed as pay", asManyAreGuessedAsPay);
  runTest("a text that repeats takes fewer batches", aTextThatRepeatsTakesFewerBatches);
  runTest("turns end within guesses", turnsEndWithinGuesses);
  runTest("a full context ends within guesses", aFullContextEndsWithinGuesses);
  runTest("others share the batch with guesses", othersShareTheBatch);
  runTest("an adapter changes what is sampled, guessed or not", anAdapterChangesWhatIsSampled);
  runTest("failures end turns with guesses as without", failuresEndTurnsAsBefore);
  runTest("nothing is guessed where it cannot be taken back", nothingIsGuessedWhereItCannotBeTakenBack);
}

}  // namespace hone
