#include "lanes.h"

#include <algorithm>
#include <atomic>

namespace hone {
namespace {

/** Tells when the last of so many has told, with the first failure. */
class Joined {
 public:
  Joined(int count, CommandDone done) : left_(count), done_(std::move(done)) {}

  void hear(const std::string& error) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (error_.empty()) error_ = error;
      if (--left_ > 0) return;
    }
    tell(done_, error_);
  }

 private:
  std::mutex mutex_;
  int left_;
  std::string error_;
  const CommandDone done_;
};

}  // namespace

Lanes::Lanes(std::vector<Lane> lanes) : load_(lanes.size()) {
  for (Lane& lane : lanes) {
    slots_.push_back(lane.settings.slots);
    lanes_.push_back(std::make_unique<Scheduler>(std::move(lane.decoder), lane.settings));
  }
}

int Lanes::leastLoaded() const {
  return static_cast<int>(std::min_element(load_.begin(), load_.end()) - load_.begin());
}

/**
 * The lane of a sequence that begins. Members of a group share their prompt's KV in one lane, unless that lane has much
 * more to do than another already.
 */
int Lanes::choose(GroupId group) const {
  const int least = leastLoaded();
  int chosen = -1;
  for (const auto& [id, sequence] : opened_) {
    const int lane = sequence.lane;
    if (sequence.group != group || lane < 0) continue;
    const int slots = slots_[lane];
    const bool fits = load_[lane] < slots && load_[lane] < load_[least] + std::max(1, slots / 2);
    if (fits && (chosen < 0 || load_[lane] < load_[chosen])) chosen = lane;
  }
  return chosen < 0 ? least : chosen;
}

SequenceId Lanes::open(OwnerId owner, GroupId group, std::vector<Token> prompt) {
  const SequenceId id = newId();
  std::lock_guard<std::mutex> lock(mutex_);
  opened_[id] = {owner, group, std::move(prompt), -1};
  return id;
}

TurnId Lanes::generate(SequenceId sequence, TurnRequest request, TurnDone done) {
  int lane = 0;  // of an unknown sequence any lane says that it is closed
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = opened_.find(sequence);
    if (found != opened_.end()) {
      Opened& opened = found->second;
      if (opened.lane < 0) {
        opened.lane = choose(opened.group);
        load_[opened.lane]++;
        lanes_[opened.lane]->open(sequence, opened.owner, opened.group, std::move(opened.prompt));
      }
      lane = opened.lane;
    }
  }
  return lanes_[lane]->generate(sequence, std::move(request), std::move(done));
}

TurnId Lanes::score(OwnerId owner, std::vector<Token> tokens, int from, ScoreDone done) {
  int lane = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lane = leastLoaded();
    load_[lane]++;
  }
  return lanes_[lane]->score(owner, std::move(tokens), from, [this, lane, done = std::move(done)](ScoreResult result) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      load_[lane]--;
    }
    tell(done, std::move(result));
  });
}

void Lanes::cancel(TurnId turn) {
  // Those that do not know it do nothing.
  for (const auto& lane : lanes_) lane->cancel(turn);
}

void Lanes::close(SequenceId sequence) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = opened_.find(sequence);
  if (found == opened_.end()) return;
  if (const int lane = found->second.lane; lane >= 0) {
    load_[lane]--;
    lanes_[lane]->close(sequence);
  }
  opened_.erase(found);
}

void Lanes::closeAll(OwnerId owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = opened_.begin(); entry != opened_.end();) {
    const Opened& opened = entry->second;
    if (opened.owner == owner && opened.lane >= 0) load_[opened.lane]--;
    entry = opened.owner == owner ? opened_.erase(entry) : std::next(entry);
  }
  for (const auto& lane : lanes_) lane->closeAll(owner);
}

template <typename Start>
void Lanes::command(CommandDone done, Start start) {
  const auto joined = std::make_shared<Joined>(size(), std::move(done));
  std::lock_guard<std::mutex> lock(commands_);
  for (const auto& lane : lanes_) start(*lane, [joined](const std::string& error) { joined->hear(error); });
}

void Lanes::useAdapter(const std::string& path, CommandDone done) {
  command(std::move(done), [&](Scheduler& lane, CommandDone told) { lane.useAdapter(path, std::move(told)); });
}

void Lanes::sleep(bool weights, CommandDone done) {
  command(std::move(done), [&](Scheduler& lane, CommandDone told) { lane.sleep(weights, std::move(told)); });
}

void Lanes::wake(CommandDone done) {
  command(std::move(done), [](Scheduler& lane, CommandDone told) { lane.wake(std::move(told)); });
}

void Lanes::setThreads(int threads) {
  for (int lane = 0; lane < size(); lane++) lanes_[lane]->setThreads(shareOf(threads, size(), lane));
}

Stats Lanes::stats() const {
  Stats all;
  for (const auto& lane : lanes_) {
    const Stats one = lane->stats();
    all.decoded += one.decoded;
    all.prefilled += one.prefilled;
    all.reused += one.reused;
    all.batches += one.batches;
    all.forks += one.forks;
    all.moves += one.moves;
    all.evicted += one.evicted;
    all.decodeSeconds += one.decodeSeconds / size();
    all.samplingSeconds += one.samplingSeconds / size();
    all.schedulingSeconds += one.schedulingSeconds / size();
    all.waitingSeconds += one.waitingSeconds / size();
    all.threads += one.threads;
    all.open += one.open;
    all.running += one.running;
    all.queued += one.queued;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  all.open += static_cast<int>(
      std::count_if(opened_.begin(), opened_.end(), [](const auto& entry) { return entry.second.lane < 0; }));
  return all;
}

void Lanes::stop() {
  for (const auto& lane : lanes_) lane->stop();
}

}  // namespace hone
