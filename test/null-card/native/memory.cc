// Memory of a card and pinned memory, both at addresses of this process.
#include <sys/mman.h>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include "null_card.h"

namespace null_card {
namespace {

constexpr size_t ALIGNMENT = 512, PAGE = 2 << 20;

struct Block {
  size_t size, charged;
  Kind kind;
  int device;
  bool foreign; // the caller's own memory, pinned by cudaHostRegister
  // What the host has copied there, by where it begins.
  std::map<uintptr_t, size_t> uploads;
  size_t uploaded; // sum of them
};

std::recursive_mutex lock;
std::map<uintptr_t, Block>& blocks() {
  static auto* all = new std::map<uintptr_t, Block>;
  return *all;
}

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Nothing is written there before it is used: a card's memory may be larger than the machine's.
void* addresses(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

// A null card's weights and caches need no memory of the machine beyond this: what is copied there is read by nobody.
constexpr size_t KEPT = 64 << 20;

void note_upload(const void* to, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto next = blocks().upper_bound((uintptr_t)to);
  if (next == blocks().begin()) return;
  Block& block = (--next)->second;
  size_t& there = block.uploads[(uintptr_t)to];
  if (bytes <= there) return;
  block.uploaded += bytes - there;
  there = bytes;
}

} // namespace

// NULLCUDA_NO_DATA: copies to a card are counted and not made, so that its weights may be larger than the machine's memory; what
// is read from one is 1 in f32 throughout, which the engine takes for a drawn token.
bool with_data() {
  static const bool without = getenv("NULLCUDA_NO_DATA");
  return !without;
}

int allocate(void** memory, size_t bytes, Kind kind) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  *memory = nullptr;
  size_t size = rounded(bytes ? bytes : 1, ALIGNMENT);
  // CUDA takes pages of 2 MiB; small blocks share one.
  size_t charged = kind != Kind::device ? 0 : size < PAGE / 2 ? size : rounded(size, PAGE);
  int device = kind == Kind::device ? current() : 0;
  if (charged && charge(charged, device)) return OUT_OF_MEMORY;
  *memory = addresses(size);
  if (!*memory) {
    if (charged) discharge(charged, device);
    return OUT_OF_MEMORY;
  }
  blocks()[(uintptr_t)*memory] = {size, charged, kind, device, false, {}, 0};
  std::string what = kind == Kind::device ? "malloc device" : "malloc pinned";
  count(what + " calls");
  count(what + " bytes", size);
  return 0;
}

int release(void* memory) {
  if (!memory) return 0;
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto found = blocks().find((uintptr_t)memory);
  if (found == blocks().end()) return INVALID_VALUE;
  Block block = found->second;
  blocks().erase(found);
  if (block.charged) discharge(block.charged, block.device);
  if (!block.foreign) munmap(memory, block.size);
  return 0;
}

Kind kind_of(const void* memory, void** base, size_t* size, int* device) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto next = blocks().upper_bound((uintptr_t)memory);
  if (next == blocks().begin()) return Kind::none;
  auto& [start, block] = *--next;
  if ((uintptr_t)memory >= start + block.size) return Kind::none;
  if (base) *base = (void*)start;
  if (size) *size = block.size;
  if (device) *device = block.device;
  return block.kind;
}

bool holds_weights(const void* memory) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto next = blocks().upper_bound((uintptr_t)memory);
  if (next == blocks().begin()) return false;
  auto& [start, block] = *--next;
  return (uintptr_t)memory < start + block.size && block.kind == Kind::device && 2 * block.uploaded >= block.size;
}

int register_host(void* memory, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (kind_of(memory) != Kind::none) return INVALID_VALUE;
  blocks()[(uintptr_t)memory] = {bytes, 0, Kind::pinned, 0, true, {}, 0};
  count("pinned by registering bytes", bytes);
  return 0;
}

uint64_t pinned_memory() {
  std::lock_guard<std::recursive_mutex> guard(lock);
  uint64_t sum = 0;
  for (auto& [start, block] : blocks())
    if (block.kind == Kind::pinned) sum += block.size;
  return sum;
}

int reserve(void** memory, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  *memory = addresses(bytes);
  if (!*memory) return OUT_OF_MEMORY;
  blocks()[(uintptr_t)*memory] = {bytes, 0, Kind::device, current(), false, {}, 0};
  count("VMM reserved bytes", bytes);
  return 0;
}

void unreserve(void* memory, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  blocks().erase((uintptr_t)memory);
  munmap(memory, bytes);
}

void copy(void* to, const void* from, size_t bytes, bool async) {
  Kind into = kind_of(to), out_of = kind_of(from);
  bool there = into == Kind::device, thence = out_of == Kind::device;
  std::string way = there ? (thence ? "D2D" : "H2D") : thence ? "D2H" : "H2H";
  bool pinned = into == Kind::pinned || out_of == Kind::pinned;
  std::string what = "copy " + way + (async ? " async" : " sync") + (there == thence ? "" : pinned ? " pinned" : " pageable");
  count(what + " calls");
  count(what + " bytes", bytes);
  // To pageable memory a copy is over when the call returns.
  if (!async) synchronised("copy");
  else if (way == "D2H" && !pinned) synchronised("copy to pageable memory");
  if (there && !thence) note_upload(to, bytes);
  if (!with_data() && (there || thence)) {
    const float one = 1;
    for (size_t at = 0; !there && at + sizeof one <= bytes; at += sizeof one) memcpy((char*)to + at, &one, sizeof one);
    return;
  }
  if (to && from && bytes && to != from) memmove(to, from, bytes);
}

void fill(void* memory, int value, size_t bytes) {
  count("memset calls");
  count("memset bytes", bytes);
  if (bytes <= KEPT && with_data()) memset(memory, value, bytes);
}

} // namespace null_card
