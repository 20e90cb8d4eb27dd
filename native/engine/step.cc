// One batch: which tokens are evaluated, and how the logits are used.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "passes.h"
#include "scheduler.h"

namespace hone {
namespace {

/** A constraint that fails ends its own turn only. */
Drawn drawnFor(const TurnRequest& request, uint64_t position, Sampler& sampler, const float* logits, int vocabulary,
               Failure& failure) {
  const SamplingParams& params = request.sampling;
  if (!request.constraint) return sampler.draw(logits, vocabulary, params, uniform(params.seed, position));
  try {
    return drawAllowed(sampler, logits, vocabulary, params, position, *request.constraint);
  } catch (const std::exception& exception) {
    failure = Failure(exception);
    return {};
  }
}

const auto bySlot = [](const auto* a, const auto* b) { return a->slot < b->slot; };

}  // namespace

void Scheduler::step() {
  const auto seconds = [](Clock::duration duration) { return std::chrono::duration<double>(duration).count(); };
  // After an earlier round without the memory to end the turns.
  if (running_.front()->slot < 0) return endRunning(Failure(std::bad_alloc()));
  try {
    std::sort(running_.begin(), running_.end(), bySlot);
    if (!settings_.pooled) compact();
    plan();
    if (drawsOnDevice()) addDraws();
    if (const int threads = threads_; threads != stats_.threads) {
      decoder_->setThreads(threads);
      stats_.threads = threads;
    }
    const Clock::time_point from = Clock::now();
    decoder_->decode(batch_);
    const Clock::time_point decoded = Clock::now();
    stats_.decodeSeconds += seconds(decoded - from);
    stats_.batches++;
    stats_.passes += passesOf(batch_, settings_.ubatch, settings_.pooled).size();
    stats_.graphsReused += decoder_->reusedGraphs();
    stats_.copiedBytes += decoder_->copiedBytes();
    for (int slot : filled_) slots_.restore(slot);
    batch_.draws.empty() ? sampleRows() : takeDrawn();
    stats_.samplingSeconds += seconds(Clock::now() - decoded);
    handOut();
  } catch (const std::exception& exception) {
    dropSlots(true);
    // A batch aborted by the scheduler's end is no failure.
    endRunning(stopping() ? Failure() : Failure(exception));
  }
}

/** Moves running sequences down into free slots between them: every gap costs another pass over the weights. */
void Scheduler::compact() {
  for (int slot = running_.front()->slot + 1; slot < running_.back()->slot; slot++) {
    if (slots_.holder(slot) != 0) continue;
    Sequence& highest = *running_.back();
    slots_.move(highest.slot, slot);
    highest.slot = slot;
    stats_.moves++;
    std::sort(running_.begin(), running_.end(), bySlot);
  }
}

void Scheduler::plan() {
  batch_.clear();
  rows_.clear();
  filled_.clear();
  const int steady = steadySlots();
  const int shape = pooledRows();
  int prompt = promptRoom(shape);
  const int alone = std::max(static_cast<int>(running_.size()), steady);
  int outputs = settings_.outputs - (settings_.slots - slots_.count()) - alone;
  std::vector<int> takes;
  for (const Sequence* sequence : running_) takes.push_back(takeOf(*sequence, prompt, outputs));
  int last = steady > 0 ? -1 : running_.front()->slot - 1;
  for (size_t i = 0; i < running_.size(); i++) {
    Sequence& sequence = *running_[i];
    if (takes[i] == 0) continue;
    fillGap(last + 1, sequence.slot);
    addRows(sequence, takes[i]);
    last = sequence.slot;
  }
  if (settings_.pooled) return pad(shape);
  fillGap(last + 1, steady);
}

/** Prompt tokens beside a token of every slot; in a pool, where a batch is one pass, beside the rows of `shape` alone. */
int Scheduler::promptRoom(int shape) const {
  const int room = settings_.pooled ? std::min(settings_.batch, settings_.ubatch) - shape : settings_.batch - settings_.slots;
  return std::max(1, std::min(settings_.promptBatch, room));
}

/** Number of a sequence's tokens in this batch; reduces the remaining room for prompts and score rows. */
int Scheduler::takeOf(const Sequence& sequence, int& prompt, int& outputs) const {
  const int cells = static_cast<int>(slots_.cells(sequence.slot).size());
  int take = std::min(sequence.target() - cells, 1 + prompt);
  if (sequence.scoring()) {
    // Rows before `from - 1` are evaluated without logits.
    const int silent = std::max(0, sequence.turn->from - 1 - cells);
    take = std::min(take, silent + outputs);
    outputs -= std::max(0, take - silent);
  }
  prompt -= std::max(0, take - 1);
  return take;
}

void Scheduler::addRows(Sequence& sequence, int take) {
  Turn& turn = *sequence.turn;
  if (sequence.scoring() || take > 1 || turn.result.tokens.empty()) stats_.prefilled += take;
  for (int i = 0; i < take; i++) {
    const int position = static_cast<int>(slots_.cells(sequence.slot).size());
    const Token token = sequence.tokens[position];
    const bool wanted = turn.scored ? position >= turn.from - 1 : position + 1 == sequence.target();
    const int row = batch_.add(token, position, sequence.slot, wanted);
    if (wanted) rows_.push_back({&sequence, row, turn.scored ? sequence.tokens[position + 1] : -1});
    slots_.append(sequence.slot, token);
  }
}

/** Why a turn ends after a token, with so many sampled tokens and so many in its sequence; or that it goes on. */
std::optional<Stop> Scheduler::endAfter(const TurnRequest& request, Token token, size_t sampled, size_t length) const {
  if (std::find(request.stop.begin(), request.stop.end(), token) != request.stop.end()) return Stop::token;
  if (sampled >= static_cast<size_t>(request.maxTokens)) return Stop::length;
  if (length >= static_cast<size_t>(settings_.contextPerSlot)) return Stop::context;
  return std::nullopt;
}

void Scheduler::sample(Row& row, Sampler& sampler) {
  const int vocabulary = decoder_->vocabularySize();
  const float* logits = decoder_->logits(row.row);
  if (row.given >= 0) {
    row.drawn.logprob = logprobOf(logits, vocabulary, row.given);
    row.drawn.token = std::isnan(row.drawn.logprob) ? -1 : row.given;
    return;
  }
  const TurnRequest& request = row.sequence->turn->request;
  row.drawn = drawnFor(request, row.sequence->tokens.size(), sampler, logits, vocabulary, row.failure);
  if (request.likeliest >= 0 && row.drawn.token >= 0) {
    row.own = logprobOf(logits, vocabulary, row.drawn.token);
    row.likeliest = likeliestOf(logits, vocabulary, request.likeliest);
  }
}

void Scheduler::sampleRows() {
  pool_.run(static_cast<int>(rows_.size()), [&](int item, int thread) { sample(rows_[item], samplers_[thread]); });
}

/** Appends a drawn token to its sequence. If it throws, for lack of memory, nothing has changed. */
void Scheduler::take(Sequence& sequence, const Drawn& drawn) {
  TurnResult& result = sequence.turn->result;
  const size_t length = sequence.tokens.size();
  const size_t count = result.tokens.size();
  try {
    sequence.tokens.push_back(drawn.token);
    result.tokens.push_back(drawn.token);
    result.logprobs.push_back(drawn.logprob);
  } catch (...) {
    sequence.tokens.resize(length);
    result.tokens.resize(count);
    result.logprobs.resize(count);
    throw;
  }
  stats_.decoded++;
}

void Scheduler::handOut() {
  std::vector<std::pair<Sequence*, Failure>> broken;
  for (Row& row : rows_) {
    Sequence& sequence = *row.sequence;
    Turn& turn = *sequence.turn;
    if (row.drawn.token < 0) {
      if (broken.empty() || broken.back().first != &sequence) broken.emplace_back(&sequence, std::move(row.failure));
      continue;
    }
    if (turn.scored) {
      turn.scores.push_back(row.drawn.logprob);
      continue;
    }
    take(sequence, row.drawn);
    const auto& listener = turn.request.sampled;
    if (listener) tell(listener, Sampled{row.drawn.token, row.drawn.logprob, row.own, std::move(row.likeliest)});
  }
  for (auto& [sequence, failure] : broken) {
    if (failure.empty()) failure = "the model's logits are not finite: its weights or its adapter are broken";
    endTurn(*sequence, Stop::cancelled, std::move(failure));
  }
  const std::vector<Sequence*> running = running_;
  for (Sequence* sequence : running) {
    const Turn& turn = *sequence->turn;
    if (turn.scored) {
      if (static_cast<int>(slots_.cells(sequence->slot).size()) == sequence->target()) endTurn(*sequence, Stop::token);
      continue;
    }
    const std::vector<Token>& sampled = turn.result.tokens;
    if (sampled.empty()) continue;
    const auto end = endAfter(turn.request, sampled.back(), sampled.size(), sequence->tokens.size());
    if (end) endTurn(*sequence, *end);
  }
}

}  // namespace hone
