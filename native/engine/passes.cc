#include "passes.h"

#include <algorithm>

namespace hone {

std::vector<int> passesOf(const Batch& batch, int ubatch, bool pooled) {
  std::vector<int> passes;
  if (pooled) {
    for (int done = 0; done < batch.size(); done += ubatch) passes.push_back(std::min(ubatch, batch.size() - done));
    return passes;
  }
  struct Left {
    int slot;
    int tokens;
  };
  std::vector<Left> left;
  for (const int32_t slot : batch.slots) {
    if (left.empty() || left.back().slot != slot) left.push_back({slot, 0});
    left.back().tokens++;
  }
  while (!left.empty()) {
    size_t end = 1;
    int fewest = left[0].tokens;
    while (end < left.size() && left[end].slot == left[end - 1].slot + 1 && static_cast<int>(end) <= ubatch) {
      fewest = std::min(fewest, left[end++].tokens);
    }
    const int taken = std::min(fewest, std::max(1, ubatch / static_cast<int>(end)));
    passes.push_back(taken * static_cast<int>(end));
    for (size_t i = 0; i < end; i++) left[i].tokens -= taken;
    left.erase(std::remove_if(left.begin(), left.end(), [](const Left& one) { return one.tokens == 0; }), left.end());
  }
  return passes;
}

}  // namespace hone
