// The runtime's interface: memory and copies. In a stream that is captured a copy is a node of its graph.
#include <cuda_runtime_api.h>
#include <cstring>
#include "null_card.h"
#include "runtime.h"

using namespace null_card;

namespace {

cudaError_t copied(void* to, const void* from, size_t bytes, cudaStream_t stream, const char* name) {
  if (capturing(stream)) return answer(launch("copy", name, stream));
  return copy(to, from, bytes, true), cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  size_t used = used_memory(current());
  *total = total_memory(current());
  *free = used > *total ? 0 : *total - used;
  return count("cudaMemGetInfo"), cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) { return answer(allocate(memory, bytes, Kind::device)); }
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned) { return answer(allocate(memory, bytes, Kind::device)); }
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) { return answer(allocate(memory, bytes, Kind::device)); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return answer(allocate(memory, bytes, Kind::pinned)); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) { return answer(allocate(memory, bytes, Kind::pinned)); }
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) { return answer(register_host(memory, bytes)); }
cudaError_t cudaHostUnregister(void* memory) { return answer(release(memory)); }
cudaError_t cudaHostGetDevicePointer(void** address, void* memory, unsigned) { return *address = memory, cudaSuccess; }
// It waits for the card.
cudaError_t cudaFree(void* memory) {
  if (memory) synchronised("cudaFree"), count("free device calls");
  return answer(release(memory));
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return answer(release(memory)); }
cudaError_t cudaFreeHost(void* memory) { return answer(release(memory)); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = (cudaMemPool_t)0x2000, cudaSuccess; }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return copy(to, from, bytes, false), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copied(to, from, bytes, stream, "memcpy");
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return copied(to, from, bytes, stream, "memcpyPeer");
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  if (capturing(stream)) return answer(launch("copy", "memcpy2D", stream));
  count("copy 2D calls");
  count("copy 2D bytes", width * height);
  for (size_t row = 0; row < height && with_data(); row++) memmove((char*)to + row * to_pitch, (char*)from + row * from_pitch, width);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) { return fill(memory, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  if (capturing(stream)) return answer(launch("memset", "memset", stream));
  return fill(memory, value, bytes), cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  memset(attributes, 0, sizeof *attributes);
  Kind kind = kind_of(address, nullptr, nullptr, &attributes->device);
  attributes->type = kind == Kind::device   ? cudaMemoryTypeDevice
                     : kind == Kind::pinned ? cudaMemoryTypeHost
                                            : cudaMemoryTypeUnregistered;
  if (kind == Kind::none) attributes->device = cudaInvalidDeviceId;
  else attributes->devicePointer = (void*)address;
  if (kind == Kind::pinned) attributes->hostPointer = (void*)address;
  return cudaSuccess;
}

} // extern "C"
