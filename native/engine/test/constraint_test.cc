// Turns under a constraint: the distribution that is left, and failures.
#include <cmath>
#include <memory>
#include <set>

#include "fixture.h"

using namespace hone;

namespace {

/** Allows even tokens, and none after `most` of them. */
class Even final : public Constraint {
 public:
  explicit Even(int most = 1 << 30) : left_(most) {}

  bool allows(Token token) override { return left_ > 0 && token % 2 == 0; }
  void mask(std::vector<float>& logits) override {
    masked++;
    for (Token token = 0; token < static_cast<Token>(logits.size()); token++) {
      if (!allows(token)) logits[token] = -INFINITY;
    }
  }
  void accept(Token token) override {
    CHECK(allows(token));
    accepted.push_back(token);
    left_--;
  }

  std::vector<Token> accepted;
  int masked = 0;

 private:
  int left_;
};

constexpr int kDraws = 200000;

/** Probability of each even token among them; 0 of others. */
std::vector<double> evenShares(const std::vector<float>& logits) {
  std::vector<double> shares(kVocabulary);
  double total = 0;
  for (Token token = 0; token < kVocabulary; token += 2) total += shares[token] = std::exp(logits[token]);
  for (double& share : shares) share /= total;
  return shares;
}

template <typename Draw>
void checkProportions(const std::vector<double>& shares, Draw draw) {
  std::vector<int> counts(kVocabulary);
  for (int i = 0; i < kDraws; i++) counts[draw(i)]++;
  // Chi squared with 24 degrees of freedom: above 24 + 6 * sqrt(48) once in a million seeds.
  double chi = 0;
  for (Token token = 0; token < kVocabulary; token += 2) {
    const double wanted = kDraws * shares[token];
    chi += (counts[token] - wanted) * (counts[token] - wanted) / wanted;
  }
  CHECK(chi < 24 + 6 * std::sqrt(48.0));
}

void whatIsLeftKeepsItsProportions() {
  const std::vector<float> logits = logitsAfter(99);
  Sampler sampler;
  SamplingParams params;
  params.seed = 5;
  Even even;
  checkProportions(evenShares(logits), [&](int i) {
    const Drawn drawn = drawAllowed(sampler, logits.data(), kVocabulary, params, i, even);
    CHECK(drawn.logprob == logprobOf(logits.data(), kVocabulary, drawn.token));
    return drawn.token;
  });
  CHECK(even.masked > kDraws / 4 && even.masked < kDraws);
}

void aRestrictedDrawHasTheProbabilitiesOfWhatIsLeft() {
  const std::vector<float> logits = logitsAfter(99);
  const std::vector<double> shares = evenShares(logits);
  Sampler sampler;
  SamplingParams params;
  params.seed = 6;
  Even even;
  AllowedSets sets;
  Draws draws;
  checkProportions(shares, [&](int i) {
    const Drawn drawn = drawRestricted(sampler, logits.data(), kVocabulary, params, i, even, sets);
    CHECK(std::fabs(drawn.logprob - std::log(shares[drawn.token])) < 1e-5);
    draws.add(drawn.draws);
    return drawn.token;
  });
  CHECK(draws.tokens == kDraws && std::fabs(draws.deviation) < 6 * std::sqrt(draws.variance));
  // Every second token of a vocabulary of 50, at each position.
  CHECK(sets.sets().size() == 1 && sets.numbers() == std::vector<int32_t>(kDraws, 0));
  CHECK(sets.sets()[0] == (std::vector<uint8_t>{0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x01}));
  sets.add(std::vector<char>(kVocabulary, 1));
  CHECK(sets.sets().size() == 1 && sets.numbers().back() == -1);
}

void aTurnObeysAndOthersAreFree() {
  std::mt19937_64 random(3);
  Fixture fixture(4);
  std::vector<std::future<TurnResult>> turns;
  std::vector<std::vector<Token>> prompts;
  std::vector<std::shared_ptr<Even>> constraints;
  for (int i = 0; i < 8; i++) {
    prompts.push_back(prompt(random, 10));
    const SequenceId sequence = fixture.scheduler.open(1, fixture.scheduler.newGroup(), prompts.back());
    TurnRequest turn = request(20, i);
    constraints.push_back(i % 2 == 0 ? std::make_shared<Even>() : nullptr);
    turn.constraint = constraints.back();
    turns.push_back(fixture.generate(sequence, std::move(turn)));
  }
  for (int i = 0; i < 8; i++) {
    const TurnResult result = turns[i].get();
    CHECK(result.error.empty());
    if (!constraints[i]) {
      CHECK(result.tokens == expected(prompts[i], 20, i));
      continue;
    }
    CHECK(result.tokens == constraints[i]->accepted);
    CHECK(std::set<Token>(result.tokens.begin(), result.tokens.end()).size() > 3);
    for (Token token : result.tokens) CHECK(token % 2 == 0);
  }
}

void aConstraintThatFailsEndsItsTurnAlone() {
  std::mt19937_64 random(4);
  Fixture fixture(2);
  const std::vector<Token> other = prompt(random, 10);
  const SequenceId first = fixture.scheduler.open(1, fixture.scheduler.newGroup(), prompt(random, 10));
  const SequenceId second = fixture.scheduler.open(1, fixture.scheduler.newGroup(), other);
  TurnRequest failing = request(20, 1);
  failing.constraint = std::make_shared<Even>(3);
  auto failed = fixture.generate(first, std::move(failing));
  auto free = fixture.generate(second, request(20, 2));
  const TurnResult result = failed.get();
  CHECK(result.error == "no token of the model's vocabulary goes on as the grammar demands");
  CHECK(result.tokens.size() == 3);
  CHECK(free.get().tokens == expected(other, 20, 2));
}

}  // namespace

void hone::testConstraints() {
  runTest("what a constraint leaves keeps its proportions", whatIsLeftKeepsItsProportions);
  runTest("a restricted draw has the probabilities of what is left", aRestrictedDrawHasTheProbabilitiesOfWhatIsLeft);
  runTest("a turn obeys its constraint, and others are free", aTurnObeysAndOthersAreFree);
  runTest("a constraint that fails ends its turn alone", aConstraintThatFailsEndsItsTurnAlone);
}
