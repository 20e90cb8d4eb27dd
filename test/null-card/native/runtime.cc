// The runtime's interface: devices, errors, kernels that are compiled into a program.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include "null_card.h"
#include "runtime.h"

using namespace null_card;

namespace {

std::mutex lock;
// Names of kernels by the function that stands for each in the program.
std::map<const void*, std::string>& kernels() {
  static auto* all = new std::map<const void*, std::string>;
  return *all;
}

thread_local cudaError_t last = cudaSuccess;
thread_local struct {
  dim3 grid, block;
  size_t shared;
  void* stream;
} configured;

cudaError_t launched(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, void* stream) {
  const char* name = "?";
  {
    std::lock_guard<std::mutex> guard(lock);
    auto found = kernels().find(function);
    if (found != kernels().end()) name = found->second.c_str();
  }
  Launch shape{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared};
  return answer(launch("runtime", name, stream, &shape, work_of(name, shape, arguments)));
}

} // namespace

cudaError_t answer(int error) {
  if (error) last = (cudaError_t)error;
  return (cudaError_t)error;
}

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle[4];
  count("fat binaries registered");
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  std::lock_guard<std::mutex> guard(lock);
  kernels()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configured = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configured.grid;
  *block = configured.block;
  *shared = configured.shared;
  *(void**)stream = configured.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return *kernel = (cudaKernel_t)function, cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return launched(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return launched(function, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return launched(function, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return launched(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 64;
  // The code of an 8.9 is that of 8.6: PyTorch has none of its own for it, and its sorting asks for a version that it has.
  int capability = card().major * 10 + card().minor;
  attributes->binaryVersion = attributes->ptxVersion = capability == 89 ? 86 : capability;
  attributes->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute which, int value) {
  bool much = which == cudaFuncAttributeMaxDynamicSharedMemorySize && value > card().shared;
  return answer(much ? INVALID_VALUE : 0);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  return *blocks = 2, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  return *blocks = 2, cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cards().size();
  if (driver_version() / 1000 < CUDART_VERSION / 1000) return answer(cudaErrorInsufficientDriver);
  return answer(*count ? 0 : NO_DEVICE);
}
cudaError_t cudaGetDevice(int* device) { return *device = current(), cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return answer(set_current(device)); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = driver_version(), cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) { return answer(attribute(value, which, device)); }
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, length, "0000:%02x:00.0", cards().at(device).index + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return synchronised("cudaDeviceSynchronize"), cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device) {
  if (device < 0 || device >= (int)cards().size()) return answer(INVALID_DEVICE);
  const Card& card = cards()[device];
  auto value = [&](int which) {
    int found = 0;
    attribute(&found, which, device);
    return found;
  };
  memset(to, 0, sizeof *to);
  strncpy(to->name, card.name.c_str(), sizeof to->name - 1);
  memset(to->uuid.bytes, card.index + 1, 16);
  to->totalGlobalMem = total_memory(device);
  to->sharedMemPerBlock = 49152;
  to->sharedMemPerBlockOptin = card.shared;
  to->sharedMemPerMultiprocessor = card.shared_sm;
  to->reservedSharedMemPerBlock = 1024;
  to->regsPerBlock = to->regsPerMultiprocessor = 65536;
  to->warpSize = 32;
  to->memPitch = 2147483647;
  to->maxThreadsPerBlock = to->maxThreadsDim[0] = to->maxThreadsDim[1] = 1024;
  to->maxThreadsDim[2] = 64;
  to->maxGridSize[0] = 2147483647;
  to->maxGridSize[1] = to->maxGridSize[2] = 65535;
  to->totalConstMem = 65536;
  to->major = card.major;
  to->minor = card.minor;
  to->multiProcessorCount = card.sms;
  to->maxThreadsPerMultiProcessor = card.threads_sm;
  to->maxBlocksPerMultiProcessor = card.blocks_sm;
  to->memoryBusWidth = card.bus;
  to->l2CacheSize = card.l2;
  to->persistingL2CacheMaxSize = card.l2 / 2;
  to->pciBusID = value(cudaDevAttrPciBusId);
  to->asyncEngineCount = 2;
  to->canMapHostMemory = to->concurrentKernels = to->unifiedAddressing = to->managedMemory = 1;
  to->concurrentManagedAccess = to->computePreemptionSupported = to->cooperativeLaunch = 1;
  to->streamPrioritiesSupported = to->globalL1CacheSupported = to->localL1CacheSupported = 1;
  to->memoryPoolsSupported = to->hostRegisterSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  auto error = last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    default: return "error of the null card";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    default: return "cudaErrorUnknown";
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  *function = dlsym(driver, (std::string(name) + "_v2").c_str());
  if (!*function) *function = dlsym(driver, name);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void*) { return answer(allocate(address, 4096, Kind::device)); }

} // extern "C"
