// What the stand-ins of CUDA's libraries share; defined in the driver's, libcuda.so.1.
//
// A null card has the memory, limits and lifecycle of a card, and computes nothing: kernels are counted and not run, copies
// are made, memory of the card is memory of the process that is charged to the card.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace null_card {

constexpr int OUT_OF_MEMORY = 2;    // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
constexpr int INVALID_VALUE = 1;    // cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE
constexpr int INVALID_DEVICE = 101; // cudaErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE
constexpr int NO_DEVICE = 100;      // cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE
constexpr int MOST_CARDS = 8;

// One of NULLCUDA_CARD, "key=value;key=value|…": cards.json has the keys.
struct Card {
  std::string name, uuid;
  int major = 8, minor = 9, sms = 1;
  size_t memory = 0;           // bytes
  int shared = 0, shared_sm = 0; // bytes of shared memory of a block that asks for it, and of a multiprocessor
  int threads_sm = 1536, blocks_sm = 24, l2 = 0;
  int clock = 0, memory_clock = 0; // kHz
  int bus = 0;                 // bits
  int index = 0;               // in NULLCUDA_CARD: what its memory is counted under
};

// Those that CUDA_VISIBLE_DEVICES leaves, in its order.
const std::vector<Card>& cards();
// Of this thread.
int current();
int set_current(int device); // 0 or INVALID_DEVICE
const Card& card();
int driver_version(); // NULLCUDA_DRIVER: 13010
int attribute(int* value, int which, int device);

// Counters, written as JSON to NULLCUDA_LOG.<pid> every second and at the end of the process.
void count(const std::string& what, uint64_t n = 1);
// Also waits for what `occupy` was told of.
void synchronised(const char* by);

// Memory of the card that is current: charged in a file that all processes on the same machine share (NULLCUDA_SHM).
int charge(size_t bytes, int device); // 0 or OUT_OF_MEMORY
void discharge(size_t bytes, int device);
size_t total_memory(int device);
size_t used_memory(int device); // by all processes
struct Held { uint64_t live, peak, context; };
Held held(int device); // by this process

enum class Kind { none, device, pinned };
int allocate(void** memory, size_t bytes, Kind kind); // 0 or OUT_OF_MEMORY
int release(void* memory);                            // 0 or INVALID_VALUE
bool holds_weights(const void* memory);               // the host has filled half of its block, or more
Kind kind_of(const void* memory, void** base = nullptr, size_t* size = nullptr, int* device = nullptr);
int register_host(void* memory, size_t bytes);
uint64_t pinned_memory();
int reserve(void** memory, size_t bytes); // addresses without memory
void unreserve(void* memory, size_t bytes);
bool with_data();
void copy(void* to, const void* from, size_t bytes, bool async);
void fill(void* memory, int value, size_t bytes);

// Launches: counted at once, or into the graph that their stream captures.
struct Launch { unsigned grid[3], block[3]; size_t shared; };
// Of one kernel, or of the kernels of a graph.
struct Work {
  uint64_t launches = 0;
  uint64_t weights = 0;    // bytes read, and written where they are converted first
  uint64_t attended = 0;   // rows of attention times the cells that each goes through
  uint64_t cells = 0;      // each once for all rows
  uint64_t attentions = 0; // calls of attention: one a layer
};
Work work_of(const char* kernel, const Launch& shape, void** arguments);
Work work_of_product(const void* left, uint64_t bytes); // of cuBLAS, by its left operand
void count(const Work& work);
// The card works for NULLCUDA_KERNEL_NS a kernel, and reads NULLCUDA_BYTES_PER_NS of weights: by default no time.
void occupy(const Work& work);
int launch(const char* library, const char* name, void* stream, const Launch* shape = nullptr, const Work& work = {}); // 0 or INVALID_VALUE
void begin_capture(void* stream);
Work end_capture(void* stream); // of all launches in it
bool capturing(void* stream);

} // namespace null_card
