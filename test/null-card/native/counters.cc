// Counters, and the report of this process.
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include "null_card.h"

namespace null_card {
namespace {

std::mutex lock;
// Never destroyed: libraries call after the end of main.
std::map<std::string, uint64_t>& counters() {
  static auto* all = new std::map<std::string, uint64_t>;
  return *all;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char one : text) {
    if (one == '"' || one == '\\') out += '\\';
    out += (unsigned char)one < ' ' ? ' ' : one;
  }
  return out + '"';
}

std::string command_line() {
  char text[300] = {0};
  if (FILE* file = fopen("/proc/self/cmdline", "r")) {
    size_t size = fread(text, 1, sizeof text - 1, file);
    for (size_t at = 0; at + 1 < size; at++)
      if (!text[at]) text[at] = ' ';
    fclose(file);
  }
  return text;
}

// Under another name first: a reader never sees half of it. Memory is asked for before the lock is taken, since those who
// hold memory's lock count.
void write_report() {
  const char* log = getenv("NULLCUDA_LOG");
  if (!log) return;
  Held sum{0, 0, 0};
  for (int device = 0; device < (int)cards().size(); device++) {
    Held one = held(device);
    sum = {sum.live + one.live, sum.peak + one.peak, sum.context + one.context};
  }
  uint64_t pinned = pinned_memory();
  std::lock_guard<std::mutex> guard(lock);
  if (counters().empty()) return;
  std::string name = std::string(log) + "." + std::to_string(getpid()), part = name + ".part";
  FILE* file = fopen(part.c_str(), "w");
  if (!file) return;
  fprintf(file, "{\"pid\": %d, \"cmd\": %s, \"live\": %lu, \"peak\": %lu, \"context\": %lu, \"pinned\": %lu", getpid(),
          quoted(command_line()).c_str(), sum.live, sum.peak, sum.context, pinned);
  for (auto& [what, value] : counters()) fprintf(file, ",\n%s: %lu", quoted(what).c_str(), value);
  fprintf(file, "}\n");
  fclose(file);
  rename(part.c_str(), name.c_str());
}

// A process that is killed leaves the report of its last second.
void report_every_second() {
  static std::atomic<int> started{0};
  int nobody = started.load();
  if (nobody == getpid() || !started.compare_exchange_strong(nobody, getpid())) return;
  std::thread([] {
    for (;;) {
      sleep(1);
      write_report();
    }
  }).detach();
}

struct AtTheEnd {
  ~AtTheEnd() { write_report(); }
} at_the_end;

} // namespace

void count(const std::string& what, uint64_t n) {
  report_every_second();
  std::lock_guard<std::mutex> guard(lock);
  counters()[what] += n;
}

namespace {
std::atomic<uint64_t> busy_for{0}; // nanoseconds

double number_of(const char* variable) {
  const char* text = getenv(variable);
  return text ? atof(text) : 0;
}
} // namespace

void occupy(const Work& work) {
  static const double kernel = number_of("NULLCUDA_KERNEL_NS"), bytes = number_of("NULLCUDA_BYTES_PER_NS");
  busy_for += uint64_t(work.launches * kernel + (bytes > 0 ? work.weights / bytes : 0));
}

void synchronised(const char* by) {
  if (uint64_t left = busy_for.exchange(0)) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  count(std::string("sync ") + by);
  count("syncs");
}

} // namespace null_card

// For programs that measure a part of their life.
extern "C" void nullcuda_dump() { null_card::write_report(); }
extern "C" void nullcuda_reset() {
  std::lock_guard<std::mutex> guard(null_card::lock);
  null_card::counters().clear();
}
// For the generated functions: what is called and has no code of its own.
extern "C" void nullcuda_unimplemented(const char* name) { null_card::count(std::string("unimplemented ") + name); }
