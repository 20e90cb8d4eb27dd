// The driver's interface: compiled code that is loaded and launched by name (Triton, PyTorch's compiler).
#include <cuda.h>
#include <string>
#include "null_card.h"

using namespace null_card;

namespace {

struct Module {};
struct Function {
  std::string name;
};

CUresult loaded(void** module) {
  count("modules loaded");
  return *module = new Module, CUDA_SUCCESS;
}

} // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void*) { return loaded((void**)module); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) { return loaded((void**)module); }
CUresult cuModuleLoad(CUmodule* module, const char*) { return loaded((void**)module); }
CUresult cuModuleUnload(CUmodule module) { return delete (Module*)module, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return *function = (CUfunction) new Function{name}, CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule, const char*) {
  if (bytes) *bytes = 4096;
  return (CUresult)allocate((void**)address, 4096, Kind::device);
}
CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return loaded((void**)library);
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return *kernel = (CUkernel) new Function{name}, CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) { return *function = (CUfunction)kernel, CUDA_SUCCESS; }

CUresult cuFuncGetName(const char** name, CUfunction function) {
  return *name = ((Function*)function)->name.c_str(), CUDA_SUCCESS;
}
// Registers and threads of a kernel of medium size: its code is not read.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  bool code = which == CU_FUNC_ATTRIBUTE_BINARY_VERSION || which == CU_FUNC_ATTRIBUTE_PTX_VERSION;
  *value = which == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 64
           : which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : code                                             ? card().major * 10 + card().minor
                                                              : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute which, int value) {
  bool much = which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value > card().shared;
  return much ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void**, void**) {
  Launch shape{{gx, gy, gz}, {bx, by, bz}, shared};
  return (CUresult)launch("driver", ((Function*)function)->name.c_str(), stream, &shape);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  Launch shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
               {config->blockDimX, config->blockDimY, config->blockDimZ},
               config->sharedMemBytes};
  return (CUresult)launch("driver", ((Function*)function)->name.c_str(), config->hStream, &shape);
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) { return *clusters = 1, CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) { return *blocks = 2, CUDA_SUCCESS; }

} // extern "C"
