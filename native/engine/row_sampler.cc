#include "row_sampler.h"

#include <algorithm>
#include <cmath>

namespace hone {
namespace {

/** A constraint that fails ends its own turn only. */
Drawn drawnFor(const TurnRequest& request, uint64_t position, Sampler& sampler, const float* logits, int vocabulary,
               Failure& failure) {
  const SamplingParams& params = request.sampling;
  if (!request.constraint) return sampler.draw(logits, vocabulary, params, uniform(params.seed, position));
  try {
    if (request.allowed) {
      return drawRestricted(sampler, logits, vocabulary, params, position, *request.constraint, *request.allowed);
    }
    return drawAllowed(sampler, logits, vocabulary, params, position, *request.constraint);
  } catch (const std::exception& exception) {
    failure = Failure(exception);
    return {};
  }
}

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
  return !request.constraint && request.likeliest < 0 && !params.truncates() &&
         params.temperature >= kLeastTemperature && std::isfinite(params.temperature);
}

}  // namespace

void RowSampler::prepare(const Decoder& decoder, Batch& batch, const std::vector<LogitRow>& rows) {
  if (!onDevice(decoder, batch, rows)) return;
  // Padding is drawn like any other row, and not read.
  batch.draws.assign(batch.tokens.size(), {});
  for (const LogitRow& row : rows) {
    const SamplingParams& params = row.sequence->turn->request.sampling;
    batch.draws[row.row] = {uniform(params.seed, row.sequence->tokens.size()), params.temperature};
  }
}

size_t RowSampler::draw(const Decoder& decoder, const Batch& batch, std::vector<LogitRow>& rows) {
  if (batch.draws.empty()) {
    pool_.run(static_cast<int>(rows.size()),
              [&](int item, int thread) { sample(decoder, rows[item], samplers_[thread]); });
    return 0;
  }
  for (LogitRow& row : rows) row.drawn = decoder.sampled(row.row);
  return rows.size();
}

bool RowSampler::onDevice(const Decoder& decoder, const Batch& batch, const std::vector<LogitRow>& rows) {
  if (!decoder.samples()) return false;
  if (rows.empty()) {
    // Prompts, maybe with rows of padding. Nothing reads these: they stay where the rows after them are expected.
    return hostBatches_ == 0 && std::count(batch.wanted.begin(), batch.wanted.end(), 1) > 0;
  }
  for (const LogitRow& row : rows) {
    if (row.given < 0 && isPlain(row.sequence->turn->request)) continue;
    hostBatches_ = kStay;
    return false;
  }
  if (hostBatches_ == 0) return true;
  hostBatches_--;
  return false;
}

void RowSampler::sample(const Decoder& decoder, LogitRow& row, Sampler& sampler) {
  const int vocabulary = decoder.vocabularySize();
  const float* logits = decoder.logits(row.row);
  const TurnRequest& request = row.sequence->turn->request;
  if (row.given >= 0) {
    row.drawn.logprob = logprobOf(logits, vocabulary, row.given);
    row.drawn.token = std::isnan(row.drawn.logprob) ? -1 : row.given;
    if (request.likeliest > 0 && row.drawn.token >= 0) row.likeliest = likeliestOf(logits, vocabulary, request.likeliest);
    return;
  }
  row.drawn = drawnFor(request, row.sequence->tokens.size(), sampler, logits, vocabulary, row.failure);
  if (request.likeliest >= 0 && row.drawn.token >= 0) {
    row.own = logprobOf(logits, vocabulary, row.drawn.token);
    row.likeliest = likeliestOf(logits, vocabulary, request.likeliest);
  }
}

}  // namespace hone
