// Which batches are drawn where the logits are, and what was drawn. A batch is drawn there whole or not at all: llama.cpp
// copies the logits of all rows of a pass, or of none.
#include <algorithm>
#include <cmath>

#include "scheduler.h"

namespace hone {
namespace {

/**
 * Batches that the host still samples after one that it had to sample: each change makes llama.cpp plan its graphs anew,
 * and where scores or grammars run beside other turns, they need the host again soon.
 */
constexpr int kStay = 8;

/** A device divides logits by the temperature in f32 before their peak is known: below this rounding grows. */
constexpr float kLeastTemperature = 0.25f;

/** Whether a turn's tokens are drawn from the softmax of logits / temperature, and nothing else is asked of the logits. */
bool isPlain(const TurnRequest& request) {
  const SamplingParams& params = request.sampling;
  return !request.constraint && request.likeliest < 0 && params.topK <= 0 && params.topP >= 1 && params.minP <= 0 &&
         params.temperature >= kLeastTemperature && std::isfinite(params.temperature);
}

}  // namespace

bool Scheduler::drawsOnDevice() {
  if (!decoder_->samples()) return false;
  if (rows_.empty()) {
    // Prompts, maybe with rows of padding. Nothing reads these: they stay where the rows after them are expected.
    return hostBatches_ == 0 && std::count(batch_.wanted.begin(), batch_.wanted.end(), 1) > 0;
  }
  for (const Row& row : rows_) {
    if (row.given < 0 && isPlain(row.sequence->turn->request)) continue;
    hostBatches_ = kStay;
    return false;
  }
  if (hostBatches_ == 0) return true;
  hostBatches_--;
  return false;
}

void Scheduler::addDraws() {
  // Padding is drawn like any other row, and not read.
  batch_.draws.assign(batch_.tokens.size(), {});
  for (const Row& row : rows_) {
    const SamplingParams& params = row.sequence->turn->request.sampling;
    batch_.draws[row.row] = {uniform(params.seed, row.sequence->tokens.size()), params.temperature};
  }
}

void Scheduler::takeDrawn() {
  for (Row& row : rows_) {
    row.drawn = decoder_->sampled(row.row);
    stats_.drawnOnDevice++;
  }
}

}  // namespace hone
