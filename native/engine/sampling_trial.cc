#include "sampling_trial.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "sampling.h"

namespace hone {
namespace {

/** A token id that every vocabulary has. */
constexpr Token kAnyToken = 0;
constexpr int kMostRows = 4;
/** The second step repeats the shape of the first: llama.cpp then reuses its graph. */
constexpr int kSteps = 3;
/**
 * Far above rounding, of the sums of a vocabulary and of the same logits computed twice, and far below what a wrong row,
 * uniform number or operation makes.
 */
constexpr double kShare = 1e-3;
constexpr double kLogprob = 1e-2;

Draw drawOf(int step, int slot) {
  return {uniform(7, static_cast<uint64_t>(step * kMostRows + slot)), slot % 2 == 0 ? 1.0f : 0.7f};
}

Batch stepOf(int step, int rows, bool draws) {
  Batch batch;
  for (int slot = 0; slot < rows; slot++) {
    batch.add(kAnyToken, step, slot, true);
    if (draws) batch.draws.push_back(drawOf(step, slot));
  }
  return batch;
}

/** Whether a uniform number leads to this token, but for rounding, and has this log-probability. */
bool agrees(const std::vector<float>& logits, const Draw& draw, const Drawn& drawn) {
  if (drawn.token < 0 || drawn.token >= static_cast<Token>(logits.size())) return false;
  const double peak = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](size_t token) { return std::exp((logits[token] - peak) / draw.temperature); };
  double total = 0, before = 0;
  for (size_t token = 0; token < logits.size(); token++) {
    if (static_cast<Token>(token) == drawn.token) before = total;
    total += weight(token);
  }
  const double own = weight(drawn.token) / total;
  const double from = before / total;
  return draw.uniform > from - kShare && draw.uniform < from + own + kShare &&
         std::abs(drawn.logprob - std::log(own)) < kLogprob;
}

std::string attempt(Decoder& decoder, int rows) {
  const auto vocabulary = static_cast<size_t>(decoder.vocabularySize());
  std::vector<std::vector<float>> logits;
  decoder.clear();
  for (int step = 0; step < kSteps; step++) {
    decoder.decode(stepOf(step, rows, false));
    for (int slot = 0; slot < rows; slot++) {
      const float* row = decoder.logits(slot);
      logits.emplace_back(row, row + vocabulary);
    }
  }
  decoder.clear();
  for (int step = 0; step < kSteps; step++) {
    decoder.decode(stepOf(step, rows, true));
    for (int slot = 0; slot < rows; slot++) {
      if (!agrees(logits[step * rows + slot], drawOf(step, slot), decoder.sampled(slot))) {
        return "it does not draw the tokens that the host draws from the same logits";
      }
    }
  }
  return "";
}

}  // namespace

std::string trySampling(Decoder& decoder, int slots) {
  std::string why;
  try {
    why = attempt(decoder, std::min(slots, kMostRows));
  } catch (const std::exception& exception) {
    why = exception.what();
  }
  decoder.clear();
  return why;
}

}  // namespace hone
