#include "scheduler.h"

#include <algorithm>

namespace hone {
namespace {

/** Time the thread, woken by a request, waits for others that come with it. Far less than a batch takes. */
constexpr std::chrono::microseconds kCompany{200};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

SchedulerSettings checked(SchedulerSettings settings) {
  settings.batch = std::max(settings.batch, 2 * settings.slots);
  settings.outputs = std::max(settings.outputs, settings.slots + 1);
  return settings;
}

Stats statsBefore(const SchedulerSettings& settings) {
  Stats stats;
  stats.threads = settings.threads;
  stats.slots = settings.slots;
  return stats;
}

}  // namespace

uint64_t newId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Scheduler::Scheduler(std::unique_ptr<Decoder> decoder, const SchedulerSettings& settings,
                     std::shared_ptr<Turnstile> turnstile)
    : decoder_(std::move(decoder)),
      settings_(checked(settings)),
      turnstile_(std::move(turnstile)),
      published_(statsBefore(settings_)),
      threads_(settings_.threads),
      slots_(*decoder_, settings_.slots),
      stats_(published_),
      planner_(settings_, *decoder_, slots_, sequences_, stats_),
      sampler_(settings_.samplingThreads),
      thread_([this] { run(); }) {}

Scheduler::~Scheduler() { stop(); }

void Scheduler::stop() {
  beginStop();
  std::lock_guard<std::mutex> lock(stopMutex_);
  if (thread_.joinable()) thread_.join();
}

void Scheduler::beginStop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  decoder_->abort();
  wakeUp_.notify_all();
}

bool Scheduler::endsBy(Clock::time_point time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return hasEnded_.wait_until(lock, time, [&] { return ended_; });
}

bool Scheduler::stopping() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

bool Scheduler::post(std::function<void()> message) {
  Messages messages;
  messages.push_back(std::move(message));
  return deliver(messages);
}

bool Scheduler::deliver(Messages& messages) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return false;
    inbox_.splice(inbox_.end(), messages);
  }
  wakeUp_.notify_all();
  return true;
}

// ---- requests, on any thread

void Scheduler::open(SequenceId id, OwnerId owner, GroupId group, std::vector<Token> prompt) {
  post([this, id, owner, group, prompt = std::move(prompt)]() mutable {
    Sequence& sequence = sequences_[id];
    sequence.id = id;
    sequence.owner = owner;
    sequence.group = group;
    sequence.tokens = std::move(prompt);
  });
}

TurnId Scheduler::generate(SequenceId sequence, TurnRequest request, TurnDone done) {
  auto turn = std::make_shared<Turn>();
  turn->id = newId();
  turn->request = std::move(request);
  turn->done = std::move(done);
  const TurnId id = turn->id;
  if (!post([this, sequence, turn] { begin(sequence, turn); })) {
    turn->result.error = kClosed;
    answer(*turn);
  }
  return id;
}

TurnId Scheduler::score(OwnerId owner, std::vector<Token> tokens, int from, int likeliest, ScoreDone done) {
  auto turn = std::make_shared<Turn>();
  turn->id = newId();
  turn->scored = std::move(done);
  turn->from = from;
  turn->request.likeliest = likeliest;
  const TurnId id = turn->id;
  const SequenceId sequence = newId();
  open(sequence, owner, newId(), std::move(tokens));
  if (!post([this, sequence, turn] { begin(sequence, turn); })) {
    turn->result.error = kClosed;
    answer(*turn);
  }
  return id;
}

void Scheduler::cancel(TurnId turn) {
  post([this, turn] {
    const auto found = turns_.find(turn);
    if (found != turns_.end()) endTurn(sequences_.at(found->second), Stop::cancelled);
  });
}

void Scheduler::close(SequenceId sequence) {
  post([this, sequence] { closeNow(sequence); });
}

void Scheduler::closeAll(OwnerId owner) {
  post([this, owner] {
    std::vector<SequenceId> owned;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.owner == owner) owned.push_back(id);
    }
    for (SequenceId id : owned) closeNow(id);
  });
}

void Scheduler::setThreads(int threads) { threads_ = std::clamp(threads, 1, settings_.threads); }

Stats Scheduler::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return published_;
}

// ---- the decode thread

void Scheduler::run() {
  bool idle = false;
  for (uint64_t round = 1;; round++) {
    Messages inbox;
    if (idle) round_ = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (idle) {
        const auto ready = [&] { return stopping_ || poked_ || !inbox_.empty(); };
        const Clock::time_point from = Clock::now();
        const Clock::time_point event = nextEvent();
        if (event == Clock::time_point::max()) {
          wakeUp_.wait(lock, ready);
        } else {
          wakeUp_.wait_until(lock, event, ready);
        }
        // The members of a group make their requests one after the other: the first would get a batch for itself.
        wakeUp_.wait_for(lock, kCompany, [&] { return stopping_; });
        stats_.waitingSeconds += seconds(Clock::now() - from);
      }
      inbox.swap(inbox_);
      poked_ = false;
      if (stopping_) {
        lock.unlock();
        receive(inbox);
        break;
      }
    }
    round_ = round;
    const Clock::time_point from = Clock::now();
    const double inside = stats_.decodeSeconds + stats_.samplingSeconds + stats_.waitingSeconds;
    receive(inbox);
    try {
      idle = false;
      admit();
      idle = running_.empty();
      if (!idle) step();
    } catch (const std::exception&) {
      // Memory ran out while turns were ended. Their records are unchanged, and the next round ends them.
    }
    publish();
    flush();
    if (!idle) {
      const double busy = stats_.decodeSeconds + stats_.samplingSeconds + stats_.waitingSeconds - inside;
      stats_.schedulingSeconds += seconds(Clock::now() - from) - busy;
    }
  }
  try {
    while (!sequences_.empty()) closeNow(sequences_.begin()->first);
  } catch (const std::exception&) {
    // There is no memory to answer the remaining turns.
  }
  publish();
  flush();
  for (Waiting& waiting : queue_) {
    if (waiting.sequence == 0) waiting.closed();
  }
  queue_.clear();
  round_ = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  hasEnded_.notify_all();
}

void Scheduler::receive(Messages& messages) {
  for (auto& message : messages) {
    try {
      message();
    } catch (const std::exception&) {
      // No memory. A turn still gets an answer: `begin` reports the failure, or that the sequence was never opened.
    }
  }
}

void Scheduler::publish() {
  stats_.slots = slots_.count();
  stats_.open = static_cast<int>(sequences_.size());
  stats_.running = static_cast<int>(running_.size());
  stats_.queued = static_cast<int>(queue_.size());
  std::lock_guard<std::mutex> lock(mutex_);
  published_ = stats_;
}

void Scheduler::flush() {
  std::vector<std::function<void()>> answers;
  answers.swap(answers_);
  for (auto& answer : answers) answer();
}

void Scheduler::answer(Turn& turn) {
  if (turn.scored) {
    const bool cancelled = turn.result.stop == Stop::cancelled;
    tell(turn.scored, ScoreResult{std::move(turn.scores), std::move(turn.likeliest), cancelled, std::move(turn.result.error)});
  } else {
    tell(turn.done, std::move(turn.result));
  }
}

void Scheduler::begin(SequenceId id, std::shared_ptr<Turn> turn) {
  const auto refuse = [&](Stop stop, const char* error, size_t length) {
    turn->result.stop = stop;
    turn->result.error = error;
    turn->result.length = static_cast<int>(length);
    answers_.push_back([turn] { answer(*turn); });
  };
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return refuse(Stop::cancelled, "the sequence is closed", 0);
  Sequence& sequence = found->second;
  if (sequence.turn) {
    return refuse(Stop::cancelled, "the sequence has a turn already; wait for it", sequence.tokens.size());
  }
  const std::vector<Token>& append = turn->request.append;
  const size_t length = sequence.tokens.size();
  const size_t room = settings_.contextPerSlot - (turn->scored ? 0 : 1);
  if (length + append.size() > room) return refuse(Stop::context, "", length);
  try {
    sequence.tokens.insert(sequence.tokens.end(), append.begin(), append.end());
    turns_[turn->id] = id;
    queue_.push_back({id, nullptr, nullptr});
  } catch (const std::exception& exception) {
    sequence.tokens.resize(length);
    turns_.erase(turn->id);
    turn->result.error = Failure(exception);
    turn->result.length = static_cast<int>(length);
    answer(*turn);
    if (turn->scored) closeNow(id);
    return;
  }
  sequence.state = State::queued;
  sequence.turn = turn;
}

/** If it throws, for lack of memory, nothing has changed. */
void Scheduler::endTurn(Sequence& sequence, Stop stop, Failure error) {
  if (sequence.state == State::queued) sequence.noteWait();
  answers_.push_back([turn = sequence.turn] { answer(*turn); });
  const std::shared_ptr<Turn> turn = std::move(sequence.turn);
  turns_.erase(turn->id);
  if (sequence.state == State::queued) {
    const auto here = [&](const Waiting& waiting) { return waiting.sequence == sequence.id; };
    queue_.erase(std::find_if(queue_.begin(), queue_.end(), here));
  } else {
    running_.erase(std::find(running_.begin(), running_.end(), &sequence));
  }
  sequence.state = State::idle;
  sequence.restingSince = Clock::now();
  turn->result.stop = stop;
  turn->result.error = std::move(error);
  turn->result.length = static_cast<int>(sequence.tokens.size());
  turn->result.sampling = turn->request.sampling;
  turn->result.usedMs = std::chrono::duration<double, std::milli>(turn->used).count();
  static const std::vector<Token> none;
  turn->result.digest = digestOf(sequence.slot < 0 ? none : slots_.cells(sequence.slot), sequence.tokens);
  turn->result.foreign = sequence.slot >= 0 && slots_.foreign(sequence.slot);
  // A score has a sequence of its own.
  if (turn->scored) closeNow(sequence.id);
}

void Scheduler::endRunning(const Failure& error) {
  while (!running_.empty()) endTurn(*running_.front(), Stop::cancelled, error);
}

void Scheduler::closeNow(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  if (found->second.turn) {
    const bool scoring = found->second.scoring();
    endTurn(found->second, Stop::cancelled);
    if (scoring) return;
  }
  if (found->second.slot >= 0) slots_.release(found->second.slot);
  sequences_.erase(found);
}

}  // namespace hone
