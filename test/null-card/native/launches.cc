// Launches, and the graphs that capture them.
#include <map>
#include <mutex>
#include "null_card.h"

namespace null_card {
namespace {

std::mutex lock;
std::map<void*, Work>& captures() {
  static auto* all = new std::map<void*, Work>;
  return *all;
}

// What every card of the profiles refuses: too many threads, or more shared memory than a block can be given.
bool fits(const Launch& shape) {
  uint64_t threads = (uint64_t)shape.block[0] * shape.block[1] * shape.block[2];
  bool some = threads && shape.grid[0] && shape.grid[1] && shape.grid[2];
  return some && threads <= 1024 && shape.block[2] <= 64 && shape.grid[0] <= 2147483647u && shape.grid[1] <= 65535 &&
         shape.grid[2] <= 65535 && shape.shared <= (size_t)card().shared;
}

} // namespace

int launch(const char* library, const char* name, void* stream, const Launch* shape, const Work& work) {
  std::string kernel = std::string(library) + " " + (name ? name : "?");
  if (shape && !fits(*shape)) {
    count("launch refused " + kernel);
    return INVALID_VALUE;
  }
  bool captured = false;
  {
    std::lock_guard<std::mutex> guard(lock);
    auto found = captures().find(stream);
    captured = found != captures().end();
    if (captured) {
      Work& sum = found->second;
      sum = {sum.launches + 1, sum.weights + work.weights, sum.attended + work.attended, sum.cells + work.cells,
             sum.attentions + work.attentions};
    }
  }
  count(captured ? "launch captured" : "launch direct");
  count("kernel " + kernel);
  if (captured) return 0;
  count(work);
  occupy({1, work.weights});
  return 0;
}

void begin_capture(void* stream) {
  std::lock_guard<std::mutex> guard(lock);
  captures()[stream] = {};
  count("graph captures");
}

Work end_capture(void* stream) {
  std::lock_guard<std::mutex> guard(lock);
  Work sum = captures()[stream];
  captures().erase(stream);
  return sum;
}

bool capturing(void* stream) {
  std::lock_guard<std::mutex> guard(lock);
  return captures().count(stream) > 0;
}

} // namespace null_card
