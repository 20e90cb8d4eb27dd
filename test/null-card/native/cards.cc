// The cards of NULLCUDA_CARD that CUDA_VISIBLE_DEVICES leaves, and what they answer when they are asked for an attribute.
#include <cuda.h>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include "null_card.h"

namespace null_card {
namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

Card card_of(const std::string& text, int index) {
  Card card;
  card.index = index;
  for (auto& field : split(text, ';')) {
    auto at = field.find('=');
    if (at == std::string::npos) continue;
    std::string key = field.substr(0, at), value = field.substr(at + 1);
    auto number = atoll(value.c_str());
    if (key == "name") card.name = value;
    else if (key == "uuid") card.uuid = value;
    else if (key == "capability") card.major = number / 10, card.minor = number % 10;
    else if (key == "sms") card.sms = number;
    else if (key == "memory") card.memory = number;
    else if (key == "shared") card.shared = number;
    else if (key == "sharedSm") card.shared_sm = number;
    else if (key == "threadsSm") card.threads_sm = number;
    else if (key == "blocksSm") card.blocks_sm = number;
    else if (key == "l2") card.l2 = number;
    else if (key == "clock") card.clock = number;
    else if (key == "memoryClock") card.memory_clock = number;
    else if (key == "bus") card.bus = number;
  }
  return card;
}

// As the driver reads it: indices or beginnings of UUIDs, up to the first that names no card.
std::vector<Card> visible(const std::vector<Card>& all) {
  const char* wanted = getenv("CUDA_VISIBLE_DEVICES");
  if (!wanted) return all;
  std::vector<Card> found;
  for (auto& one : split(wanted, ',')) {
    const Card* named = nullptr;
    for (auto& card : all)
      if (one == std::to_string(card.index) || (one.rfind("GPU-", 0) == 0 && card.uuid.rfind(one, 0) == 0)) named = &card;
    if (!named) break;
    found.push_back(*named);
  }
  return found;
}

thread_local int the_current = 0;

} // namespace

const std::vector<Card>& cards() {
  static const auto* found = [] {
    std::vector<Card> all;
    const char* text = getenv("NULLCUDA_CARD");
    for (auto& one : split(text ? text : "", '|')) all.push_back(card_of(one, all.size()));
    if (all.size() > MOST_CARDS) all.resize(MOST_CARDS);
    return new std::vector<Card>(visible(all));
  }();
  return *found;
}

int current() { return the_current; }

int set_current(int device) {
  if (device < 0 || device >= (int)cards().size()) return INVALID_DEVICE;
  the_current = device;
  return 0;
}

const Card& card() { return cards().at(the_current); }

int driver_version() {
  const char* version = getenv("NULLCUDA_DRIVER");
  return version ? atoi(version) : 13010;
}

// The runtime's attributes have the driver's numbers.
int attribute(int* value, int which, int device) {
  if (device < 0 || device >= (int)cards().size()) return INVALID_DEVICE;
  const Card& card = cards()[device];
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = card.shared; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = card.shared_sm; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: *value = 512; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = card.clock; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = card.memory_clock; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = card.bus; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = card.l2; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = card.sms; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = card.threads_sm; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = card.blocks_sm; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = card.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = card.minor; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = card.index + 1; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *value = card.major >= 9; break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: *value = 0; break; // of what no card here has, or nobody asks
  }
  return 0;
}

} // namespace null_card
