// Batches that are drawn where the logits are, beside those that the host samples.
#include "../sampling_trial.h"
#include "fixture.h"

namespace hone {
namespace {

constexpr Shapes kPlain{false, false, true};
constexpr Shapes kSteady{false, true, true};
constexpr Shapes kPool{true, true, true};

class Anything final : public Constraint {
 public:
  bool allows(Token) override { return true; }
  void mask(std::vector<float>&) override {}
  void accept(Token) override {}
};

std::vector<Token> play(Fixture& fixture, TurnRequest request, std::vector<Token> tokens = {1, 2, 3}) {
  const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), std::move(tokens));
  const TurnResult result = fixture.generate(sequence, std::move(request)).get();
  CHECK(result.error.empty());
  fixture.scheduler.close(sequence);
  return result.tokens;
}

void groupsAreDrawnWithoutCopyingLogits() {
  for (const Shapes shapes : {kPlain, kPool}) {
    for (const int lanes : {1, 2}) {
      Fixture fixture(4, true, 1000, lanes, shapes);
      std::mt19937_64 random(3);
      const std::vector<Token> common = prompt(random, 40);
      const GroupId group = fixture.scheduler.newGroup();
      std::vector<std::future<TurnResult>> turns;
      for (int i = 0; i < 9; i++) {
        turns.push_back(fixture.generate(fixture.scheduler.open(1, group, common), request(5 + 2 * i, i)));
      }
      for (int i = 0; i < 9; i++) CHECK(turns[i].get().tokens == expected(common, 5 + 2 * i, i));
      const Stats stats = fixture.scheduler.stats();
      CHECK(stats.drawnOnDevice == stats.decoded && fixture.counters.changes == 0);
      // Padding may double the rows; a row of logits would be 200 bytes.
      CHECK(stats.copiedBytes >= 12 * stats.decoded && stats.copiedBytes <= 3 * 12 * stats.decoded);
    }
  }
}

/** A batch of prompt tokens alone has rows of padding: they take neither a change of place nor logits. */
void promptsAloneStayWhereRowsAre() {
  for (const Shapes shapes : {kSteady, kPool}) {
    Fixture fixture(4, true, 1000, 1, shapes);
    std::mt19937_64 random(5);
    const std::vector<Token> common = prompt(random, 40);
    const GroupId group = fixture.scheduler.newGroup();
    std::vector<SequenceId> members;
    std::vector<std::future<TurnResult>> turns;
    for (int i = 0; i < 4; i++) {
      members.push_back(fixture.scheduler.open(1, group, common));
      turns.push_back(fixture.generate(members[i], request(20, i)));
    }
    for (int i = 0; i < 4; i++) CHECK(turns[i].get().tokens == expected(common, 20, i));
    for (const SequenceId member : members) fixture.scheduler.close(member);
    const Stats before = fixture.scheduler.stats();
    const std::vector<Token> alone = prompt(random, 96);
    CHECK(play(fixture, request(1, 3), alone) == expected(alone, 1, 3));
    const Stats stats = fixture.scheduler.stats();
    const uint64_t batches = stats.batches - before.batches;
    CHECK(batches >= 3 && stats.copiedBytes - before.copiedBytes <= batches * 4 * 12);
    CHECK(stats.copiedBytes <= 3 * 12 * stats.decoded && fixture.counters.changes == 0);
    // The host samples greedy turns; the prompt of the second stays there.
    TurnRequest greedy = request(12, 3);
    greedy.sampling.temperature = 0;
    for (int i = 0; i < 2; i++) CHECK(play(fixture, greedy, prompt(random, 96)).size() == 12);
    CHECK(fixture.counters.changes == 1);
  }
}

void theHostSamplesWhatTheDeviceCannot() {
  const auto forHost = [](auto change) {
    TurnRequest made = request(6, 9);
    change(made);
    Fixture device(2, true, 1000, 1, kPlain), host(2);
    CHECK(play(device, made) == play(host, made));
    CHECK(device.counters.drawn == 0 && device.scheduler.stats().drawnOnDevice == 0);
  };
  forHost([](TurnRequest& made) { made.sampling.temperature = 0; });
  forHost([](TurnRequest& made) { made.sampling.temperature = 1e-3f; });
  forHost([](TurnRequest& made) { made.sampling.topK = 5; });
  forHost([](TurnRequest& made) { made.sampling.topP = 0.9f; });
  forHost([](TurnRequest& made) { made.sampling.minP = 0.1f; });
  forHost([](TurnRequest& made) { made.likeliest = 0; });
  forHost([](TurnRequest& made) { made.constraint = std::make_shared<Anything>(); });
  Fixture warm(2, true, 1000, 1, kPlain), host(2);
  TurnRequest made = request(6, 9);
  made.sampling.temperature = 0.7f;
  CHECK(play(warm, made) == play(host, made) && warm.counters.drawn == 6);
}

/** A score beside turns: the batches with its rows, and a few after them, are the host's. */
void scoresAndTurnsShareBatches() {
  for (const Shapes shapes : {kPlain, kPool}) {
    Fixture fixture(3, true, 1000, 1, shapes);
    fixture.counters.microseconds = 200;
    std::mt19937_64 random(4);
    const std::vector<Token> scored = prompt(random, 60);
    const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), {1, 2, 3});
    auto turn = fixture.generate(sequence, request(120, 3));
    while (fixture.counters.drawn == 0) std::this_thread::yield();
    const std::vector<float> logprobs = fixture.score(scored, 1).get().logprobs;
    CHECK(logprobs.size() == 59);
    for (size_t i = 0; i < logprobs.size(); i++) {
      const std::vector<float> logits = logitsAfter(stateAfter(scored, i + 1, 0));
      CHECK(logprobs[i] == logprobOf(logits.data(), kVocabulary, scored[i + 1]));
    }
    CHECK(turn.get().tokens == expected({1, 2, 3}, 120, 3));
    const Stats stats = fixture.scheduler.stats();
    CHECK(stats.drawnOnDevice > 0 && stats.drawnOnDevice < stats.decoded);
    CHECK(fixture.counters.changes <= 2);  // to the host and back
  }
}

void aNewContextDraws() {
  Fixture fixture(3, true, 1000, 1, kPool);
  const auto done = [&](auto start) { CHECK(fixture.command(start).get().empty()); };
  CHECK(play(fixture, request(9, 5)) == expected({1, 2, 3}, 9, 5));
  done([&](CommandDone told) { fixture.scheduler.useAdapter("4", told); });
  CHECK(play(fixture, request(9, 5)) == expected({1, 2, 3}, 9, 5, 4));
  done([&](CommandDone told) { fixture.scheduler.sleep(true, told); });
  done([&](CommandDone told) { fixture.scheduler.wake(2, told); });
  CHECK(play(fixture, request(9, 5)) == expected({1, 2, 3}, 9, 5, 4));
  const Stats stats = fixture.scheduler.stats();
  CHECK(stats.drawnOnDevice == stats.decoded);
}

void tryAll() {
  for (const int slots : {1, 3, 8}) {
    FakeCounters counters;
    counters.samples = true;
    FakeDecoder decoder(slots, kContext, true, counters);
    CHECK(trySampling(decoder, slots).empty());
    counters.drawnWrong = 1;
    CHECK(trySampling(decoder, slots) == "it does not draw the tokens that the host draws from the same logits");
    counters.drawnWrong = 0;
    counters.fail(Call::decode);
    CHECK(trySampling(decoder, slots) == "told to fail");
    CHECK(trySampling(decoder, slots).empty());
  }
}

void aTrialFindsWrongDraws() {
  // Allocations of threads that have decoded fail in failures_test.cc.
  std::thread(tryAll).join();
}

}  // namespace

void testDeviceRows() {
  runTest("groups are drawn without copying logits", groupsAreDrawnWithoutCopyingLogits);
  runTest("prompts alone stay where rows are", promptsAloneStayWhereRowsAre);
  runTest("the host samples what the device cannot", theHostSamplesWhatTheDeviceCannot);
  runTest("scores and turns share batches", scoresAndTurnsShareBatches);
  runTest("a new context draws", aNewContextDraws);
  runTest("a trial finds wrong draws", aTrialFindsWrongDraws);
}

}  // namespace hone
