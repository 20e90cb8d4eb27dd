#include "lanes.h"

#include <algorithm>

namespace hone {
Lanes::Lanes(std::vector<Lane> lanes) : load_(lanes.size()) {
  for (Lane& lane : lanes) {
    slots_.push_back(lane.settings.slots);
    lanes_.push_back(std::make_unique<Scheduler>(std::move(lane.decoder), lane.settings, std::move(lane.turnstile)));
  }
}

/** All lanes stop before the first is freed: a command in one lane refers to the others. */
Lanes::~Lanes() { stop(); }

int Lanes::leastLoaded() const {
  return static_cast<int>(std::min_element(load_.begin(), load_.end()) - load_.begin());
}

/**
 * Chooses the lane of a new sequence. Members of a group share their prompt's KV in one lane, unless that lane already
 * has much more work than another.
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
  int lane = 0;  // any lane reports that an unknown sequence is closed
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

TurnId Lanes::score(OwnerId owner, std::vector<Token> tokens, int from, int likeliest, ScoreDone done) {
  int lane = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lane = leastLoaded();
    load_[lane]++;
  }
  const auto scored = [this, lane, done = std::move(done)](ScoreResult result) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      load_[lane]--;
    }
    tell(done, std::move(result));
  };
  return lanes_[lane]->score(owner, std::move(tokens), from, likeliest, scored);
}

void Lanes::cancel(TurnId turn) {
  // Lanes that do not have it do nothing.
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

std::vector<Scheduler*> Lanes::all() const {
  std::vector<Scheduler*> lanes;
  for (const auto& lane : lanes_) lanes.push_back(lane.get());
  return lanes;
}

/** If it throws, for lack of memory, no lane has the command. */
void Lanes::command(const std::shared_ptr<Joint>& joint) {
  std::vector<Scheduler::Command> made;
  for (int lane = 0; lane < size(); lane++) {
    made.push_back(lanes_[lane]->command([joint, lane] { return joint->visit(lane); }, [joint] { joint->close(); }));
  }
  std::lock_guard<std::mutex> lock(commands_);
  for (int lane = 0; lane < size(); lane++) lanes_[lane]->enqueue(std::move(made[lane]));
}

void Lanes::useAdapter(const std::string& path, CommandDone done) {
  const auto changed = [this](std::string adapter) {
    std::lock_guard<std::mutex> lock(mutex_);
    adapter_ = std::move(adapter);
  };
  command(newAdapterChange(all(), path, changed, std::move(done)));
}

std::string Lanes::adapter() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return adapter_;
}

void Lanes::sleep(bool weights, CommandDone done) { command(newSleep(all(), weights, std::move(done))); }

void Lanes::wake(int slots, CommandDone done) {
  std::vector<int> shares;
  for (int lane = 0; lane < size(); lane++) shares.push_back(shareOf(slots, size(), lane));
  const auto changed = [this](const std::vector<int>& slots) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (slots.front() > 0) std::copy(slots.begin(), slots.end(), slots_.begin());
  };
  command(newWake(all(), std::move(shares), changed, std::move(done)));
}

void Lanes::setThreads(int threads) {
  for (int lane = 0; lane < size(); lane++) lanes_[lane]->setThreads(shareOf(threads, size(), lane));
}

Stats Lanes::stats() const {
  Stats all;
  for (const auto& lane : lanes_) {
    const Stats one = lane->stats();
    Stats::each([&](const std::string& group, const char*, auto member) {
      all.*member += group == "seconds" ? one.*member / size() : one.*member;
    });
  }
  std::lock_guard<std::mutex> lock(mutex_);
  all.open += static_cast<int>(
      std::count_if(opened_.begin(), opened_.end(), [](const auto& entry) { return entry.second.lane < 0; }));
  return all;
}

std::vector<uint64_t> Lanes::rounds() const {
  std::vector<uint64_t> rounds;
  for (const auto& lane : lanes_) rounds.push_back(lane->round());
  return rounds;
}

void Lanes::stop() {
  for (const auto& lane : lanes_) lane->stop();
}

void Lanes::beginStop() {
  for (const auto& lane : lanes_) lane->beginStop();
}

bool Lanes::endBy(Clock::time_point time) {
  return std::all_of(lanes_.begin(), lanes_.end(), [&](const auto& lane) { return lane->endsBy(time); });
}

}  // namespace hone
