// The driver's interface: device, context, entry points, events and streams.
#include <cuda.h>
#include <dlfcn.h>
#include <cstring>
#include <string>
#include "null_card.h"

using namespace null_card;

namespace {

// Contexts are numbers: that of a device, and none of the application's own.
CUcontext context_of(int device) { return (CUcontext)(uintptr_t)(0x1000 + device); }
int device_of(CUcontext context) { return (int)((uintptr_t)context - 0x1000); }

int hexadecimal(const std::string& uuid, unsigned char bytes[16]) {
  int at = 0;
  std::string digits;
  for (char one : uuid.substr(uuid.find('-') + 1))
    if (one != '-') digits += one;
  for (; at < 16 && digits.size() >= (size_t)(2 * at + 2); at++) bytes[at] = std::stoi(digits.substr(2 * at, 2), nullptr, 16);
  return at;
}

} // namespace

extern "C" {

CUresult cuInit(unsigned) { return cards().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = driver_version(), CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int* count) { return *count = cards().size(), CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= (int)cards().size()) return CUDA_ERROR_INVALID_DEVICE;
  return *device = ordinal, CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  strncpy(name, cards().at(device).name.c_str(), length);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  hexadecimal(cards().at(device).uuid, (unsigned char*)uuid->bytes);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) { return *bytes = total_memory(device), CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  return (CUresult)attribute(value, which, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  used_memory(device); // makes the context, which has memory of its own
  return *context = context_of(device), CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  return *flags = 0, *active = 1, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = context_of(current()), CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) {
  return context ? (CUresult)set_current(device_of(context)) : CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) { return *device = current(), CUDA_SUCCESS; }
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) { return *version = 3020, CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return synchronised("cuCtxSynchronize"), CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return synchronised("cuStreamSynchronize"), CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS                ? "no error"
          : error == CUDA_ERROR_OUT_OF_MEMORY  ? "out of memory"
          : error == CUDA_ERROR_INVALID_VALUE  ? "invalid argument"
          : error == CUDA_ERROR_NO_DEVICE      ? "no CUDA-capable device is detected"
          : error == CUDA_ERROR_INVALID_DEVICE ? "invalid device ordinal"
                                               : "error of the null card";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_SUCCESS                ? "CUDA_SUCCESS"
          : error == CUDA_ERROR_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_INVALID_VALUE  ? "CUDA_ERROR_INVALID_VALUE"
          : error == CUDA_ERROR_NO_DEVICE      ? "CUDA_ERROR_NO_DEVICE"
          : error == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
                                               : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}

// Programs that are linked to no driver ask for its functions by name; the newest form of one is "_v2".
CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* result) {
  static void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* in = self ? self : RTLD_DEFAULT;
  *function = dlsym(in, (std::string(name) + "_v2").c_str());
  if (!*function) *function = dlsym(in, name);
  if (result) *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

} // extern "C"
