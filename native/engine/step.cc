// One batch, from the slots of its sequences to the tokens that they get.
#include <algorithm>
#include <stdexcept>

#include "passes.h"
#include "scheduler.h"

namespace hone {
namespace {

const auto bySlot = [](const auto* a, const auto* b) { return a->slot < b->slot; };

}  // namespace

void Scheduler::step() {
  const auto seconds = [](Clock::duration duration) { return std::chrono::duration<double>(duration).count(); };
  // After an earlier round without the memory to end the turns.
  if (running_.front()->slot < 0) return endRunning(Failure(std::bad_alloc()));
  try {
    std::sort(running_.begin(), running_.end(), bySlot);
    if (!settings_.pooled) compact();
    planner_.plan(running_);
    sampler_.prepare(*decoder_, planner_.batch(), planner_.rows());
    if (const int threads = threads_; threads != stats_.threads) {
      decoder_->setThreads(threads);
      stats_.threads = threads;
    }
    const Clock::time_point asked = Clock::now();
    std::unique_lock<Turnstile> alone = turnstile_ ? std::unique_lock(*turnstile_) : std::unique_lock<Turnstile>();
    // Time that others take is none of the batch's: it would count for the limits of its turns, and cut prompts otherwise.
    const Clock::time_point from = Clock::now();
    stats_.waitingSeconds += seconds(from - asked);
    decoder_->decode(planner_.batch());
    const Clock::time_point decoded = Clock::now();
    if (alone) alone.unlock();
    planner_.took(decoded - from);
    stats_.decodeSeconds += seconds(decoded - from);
    stats_.batches++;
    const size_t passes = passesOf(planner_.batch(), settings_.ubatch, settings_.pooled || decoder_->mixedTokens() > 0).size();
    stats_.passes += passes;
    stats_.promptPasses += planner_.promptsAlone() ? passes : 0;
    countCells();
    stats_.graphsReused += decoder_->reusedGraphs();
    stats_.copiedBytes += decoder_->copiedBytes();
    for (int slot : planner_.filled()) slots_.restore(slot);
    stats_.drawnOnDevice += sampler_.draw(*decoder_, planner_.batch(), planner_.rows());
    stats_.samplingSeconds += seconds(Clock::now() - decoded);
    handOut();
  } catch (const std::exception& exception) {
    dropSlots(true);
    // A batch aborted by the scheduler's end is no failure.
    endRunning(stopping() ? Failure() : Failure(exception));
  }
}

/** Cells that the batch's tokens attend to, each its sequence's up to itself; not those of padding. */
void Scheduler::countCells() {
  const Batch& batch = planner_.batch();
  for (int i = 0; i < batch.size(); i++) {
    if (batch.slots[i] >= 0) stats_.ownedCells += batch.positions[i] + 1;
  }
  for (int slot : planner_.filled()) stats_.ownedCells -= slots_.cells(slot).size() + 1;
}

/**
 * Moves running sequences down into free slots between them: every gap costs another pass over the weights. With steady shapes
 * padding closes the gaps, and a move, which waits for the device twice a layer (llama_kv_cache::update), is made where none can
 * be, and when fewer slots have sufficed for long.
 */
void Scheduler::compact() {
  const int enough = planner_.takeShrunk();
  for (int slot = 0; slot < running_.back()->slot; slot++) {
    if (slots_.holder(slot) != 0) continue;
    const bool padded = settings_.steady && planner_.fillable(slot);
    if ((padded || slot < running_.front()->slot) && running_.back()->slot < enough) continue;
    Sequence& highest = *running_.back();
    slots_.move(highest.slot, slot);
    highest.slot = slot;
    stats_.moves++;
    std::sort(running_.begin(), running_.end(), bySlot);
  }
}

/** Why a turn ends, with so many tokens in its sequence; or that it goes on. */
std::optional<Stop> Scheduler::endOf(const Turn& turn, size_t length) const {
  const TurnRequest& request = turn.request;
  if (const std::vector<Token>& sampled = turn.result.tokens; !sampled.empty()) {
    if (std::find(request.stop.begin(), request.stop.end(), sampled.back()) != request.stop.end()) return Stop::token;
    if (sampled.size() >= static_cast<size_t>(request.maxTokens)) return Stop::length;
    if (length >= static_cast<size_t>(settings_.contextPerSlot)) return Stop::context;
  }
  if (request.limitMs > 0 && turn.used >= std::chrono::milliseconds(request.limitMs)) return Stop::deadline;
  return std::nullopt;
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
  result.draws.add(drawn.draws);
  stats_.decoded++;
}

void Scheduler::handOut() {
  std::vector<std::pair<Sequence*, Failure>> broken;
  for (LogitRow& row : planner_.rows()) {
    Sequence& sequence = *row.sequence;
    Turn& turn = *sequence.turn;
    if (row.drawn.token < 0) {
      if (broken.empty() || broken.back().first != &sequence) broken.emplace_back(&sequence, std::move(row.failure));
      continue;
    }
    if (turn.scored) {
      turn.scores.push_back(row.drawn.logprob);
      turn.likeliest.insert(turn.likeliest.end(), row.likeliest.begin(), row.likeliest.end());
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
    if (const auto end = endOf(turn, sequence->tokens.size())) endTurn(*sequence, *end);
  }
}

}  // namespace hone
