#include "draft_length.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

namespace hone {
namespace {

/** Weight of a new measurement. */
constexpr double kWeight = 0.2;
/** A batch during which the machine did something else counts as this many times what was expected at most. */
constexpr double kMost = 2;
/** Measurements after which a choice is tried again. */
constexpr int64_t kPatience = 64;
/** Weight of a measurement after that: the old figure says little. */
constexpr double kOldWeight = 0.7;
/** More guesses must promise so many times the tokens a second: costs are estimates, and other shapes cost graphs. */
constexpr double kGain = 1.1;
/** At most one in so many batches has a number of guesses that is only tried. */
constexpr int kTrials = 8;

}  // namespace

void PassCosts::note(const std::vector<int>& passes, double seconds) {
  if (passes.empty() || seconds <= 0) return;
  batches_++;
  double expected = 0;
  int64_t rows = 0;
  for (const int pass : passes) {
    expected += of(pass);
    rows += pass;
  }
  const double factor = expected > 0 ? std::min(seconds / expected, kMost) : 1;
  for (const int pass : passes) {
    const auto found = costs_.find(pass);
    if (found == costs_.end()) {
      const double own = expected > 0 ? of(pass) * factor : seconds * pass / static_cast<double>(rows);
      costs_[pass] = {own, batches_};
    } else {
      const double weight = batches_ - found->second.at > kPatience ? kOldWeight : kWeight;
      found->second = {found->second.seconds * (1 + weight * (factor - 1)), batches_};
    }
  }
}

double PassCosts::of(int rows) const {
  if (costs_.empty()) return 0;
  const auto above = costs_.lower_bound(rows);
  if (above == costs_.begin()) return above->second.seconds;
  const auto below = std::prev(above);
  const double part = static_cast<double>(rows - below->first);
  // Beyond what was measured each row is taken to cost as much as those that were.
  if (above == costs_.end()) return below->second.seconds * (1 + part / below->first);
  return below->second.seconds +
         (above->second.seconds - below->second.seconds) * part / static_cast<double>(above->first - below->first);
}

int64_t PassCosts::age(int rows) const {
  const auto found = costs_.find(rows);
  return found == costs_.end() ? std::numeric_limits<int64_t>::max() : batches_ - found->second.at;
}

static double rowsOf(const DraftChoice& choice) {
  return std::accumulate(choice.passes.begin(), choice.passes.end(), 0.0);
}

size_t DraftLength::choose(const std::vector<DraftChoice>& choices, bool measured) {
  std::vector<double> seconds;
  for (const DraftChoice& choice : choices) {
    double sum = 0;
    for (const int pass : choice.passes) sum += costs_.of(pass);
    seconds.push_back(sum);
  }
  size_t best = 0;
  for (size_t i = 1; i < choices.size(); i++) {
    if (choices[i].tokens * seconds[best] > (best == 0 ? kGain : 1) * choices[best].tokens * seconds[i]) best = i;
  }
  since_++;
  if (!measured || since_ < kTrials) return best;
  for (size_t i = 0; i < choices.size(); i++) {
    // Not better even if further rows cost nothing, or those saved as much as the others.
    const double share = std::min(1.0, rowsOf(choices[i]) / rowsOf(choices[best]));
    if (i == best || choices[i].tokens <= (best == 0 ? kGain : 1) * choices[best].tokens * share) continue;
    if (costs_.age(*std::max_element(choices[i].passes.begin(), choices[i].passes.end())) <= kPatience) continue;
    since_ = 0;
    return i;
  }
  return best;
}

}  // namespace hone
