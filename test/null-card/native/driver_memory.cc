// The driver's interface: memory, and addresses that physical memory is mapped to (llama.cpp's pool, PyTorch's expandable
// segments).
#include <cuda.h>
#include <map>
#include <mutex>
#include "null_card.h"

using namespace null_card;

namespace {

constexpr size_t GRANULARITY = 2 << 20;

// Physical memory: free when it is neither held by its handle nor mapped.
struct Physical {
  size_t size;
  int device;
  int uses;
};
std::mutex lock;
std::map<CUmemGenericAllocationHandle, Physical> physical;
std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
CUmemGenericAllocationHandle next = 1;

void let_go(CUmemGenericAllocationHandle handle) {
  auto found = physical.find(handle);
  if (found == physical.end() || --found->second.uses > 0) return;
  discharge(found->second.size, found->second.device);
  count("VMM freed bytes", found->second.size);
  physical.erase(found);
}

} // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  size_t used = used_memory(current());
  *total = total_memory(current());
  *free = used > *total ? 0 : *total - used;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  return (CUresult)allocate((void**)memory, bytes, Kind::device);
}
CUresult cuMemFree_v2(CUdeviceptr memory) { return (CUresult)release((void*)memory); }
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy(to, (void*)from, bytes, false), CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy((void*)to, from, bytes, false), CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return *bytes = GRANULARITY, CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  return (CUresult)reserve((void**)address, bytes);
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) { return unreserve((void*)address, bytes), CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* property,
                     unsigned long long) {
  int device = property->location.id;
  if (charge(bytes, device)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> guard(lock);
  physical[*handle = next++] = {bytes, device, 1};
  count("VMM creates");
  count("VMM created bytes", bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr address, size_t, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  std::lock_guard<std::mutex> guard(lock);
  if (!physical.count(handle)) return CUDA_ERROR_INVALID_VALUE;
  physical[handle].uses++;
  mapped[address] = handle;
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> guard(lock);
  return let_go(handle), CUDA_SUCCESS;
}
// All that is mapped in the range.
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> guard(lock);
  auto from = mapped.lower_bound(address), to = mapped.lower_bound(address + bytes);
  for (auto one = from; one != to; one++) let_go(one->second);
  mapped.erase(from, to);
  count("VMM unmapped bytes", bytes);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  int device = 0;
  Kind kind = kind_of((void*)address, nullptr, nullptr, &device);
  if (kind == Kind::none) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) *(CUdeviceptr*)value = address;
  else if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *(unsigned*)value = kind == Kind::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  else if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *(int*)value = device;
  else *(int*)value = 0;
  return CUDA_SUCCESS;
}

} // extern "C"
