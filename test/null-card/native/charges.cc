// How much memory of each card each process holds, in a file that the processes of one machine share. What a process has that
// ended, however it ended, is free.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include "null_card.h"

namespace null_card {
namespace {

constexpr int PROCESSES = 64;

struct Row {
  std::atomic<int64_t> pid;
  std::atomic<uint64_t> live[MOST_CARDS], peak[MOST_CARDS], context[MOST_CARDS];
};
struct Machine {
  // A test writes them: the memory of a card in bytes, in place of its own, from now on. 0: its own.
  std::atomic<uint64_t> limit[MOST_CARDS];
  Row rows[PROCESSES];
};

std::mutex lock;

Machine& machine() {
  static Machine* mapped = [] {
    const char* name = getenv("NULLCUDA_SHM");
    int file = open(name ? name : "/dev/shm/nullcuda", O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, sizeof(Machine)) != 0) abort();
    void* memory = mmap(nullptr, sizeof(Machine), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) abort();
    return (Machine*)memory;
  }();
  return *mapped;
}

bool lives(int64_t pid) { return pid == getpid() || (pid != 0 && kill(pid, 0) == 0); }

Row& own() {
  static Row* mine = nullptr;
  if (mine && mine->pid == getpid()) return *mine;
  for (auto& row : machine().rows) {
    int64_t before = row.pid;
    if (lives(before) || !row.pid.compare_exchange_strong(before, getpid())) continue;
    for (int device = 0; device < MOST_CARDS; device++) row.live[device] = row.peak[device] = row.context[device] = 0;
    mine = &row;
    return row;
  }
  abort(); // more processes than a machine of these tests has
}

// What the driver keeps for a process on a card as soon as it uses it: NULLCUDA_CONTEXT_MB, 400 MiB.
void have_context(int device) {
  Row& row = own();
  if (row.context[device]) return;
  const char* megabytes = getenv("NULLCUDA_CONTEXT_MB");
  uint64_t bytes = (uint64_t)(megabytes ? atoll(megabytes) : 400) << 20;
  row.context[device] = bytes;
  row.live[device] += bytes;
}

int slot(int device) { return cards().at(device).index; }

} // namespace

size_t total_memory(int device) {
  uint64_t limit = machine().limit[slot(device)];
  return limit ? limit : cards().at(device).memory;
}

size_t used_memory(int device) {
  std::lock_guard<std::mutex> guard(lock);
  have_context(slot(device));
  uint64_t sum = 0;
  for (auto& row : machine().rows)
    if (lives(row.pid)) sum += row.live[slot(device)];
  return sum;
}

int charge(size_t bytes, int device) {
  if (used_memory(device) + bytes > total_memory(device)) {
    count("OUT OF MEMORY");
    return OUT_OF_MEMORY;
  }
  auto &live = own().live[slot(device)], &peak = own().peak[slot(device)];
  live += bytes;
  if (live > peak) peak = live.load();
  return 0;
}

void discharge(size_t bytes, int device) { own().live[slot(device)] -= bytes; }

Held held(int device) {
  std::lock_guard<std::mutex> guard(lock);
  Row& row = own();
  int at = slot(device);
  return {row.live[at], row.peak[at], row.context[at]};
}

} // namespace null_card
