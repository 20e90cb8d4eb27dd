// cuBLAS: a product is one launch. Without its header, which is in a package of half a gigabyte: pointers and sizes are all
// that is used of the arguments.
#include "null_card.h"

using namespace null_card;

namespace {
constexpr int SUCCESS = 0;
struct Handle {
  void* stream;
};
} // namespace

extern "C" {

int cublasCreate_v2(Handle** handle) { return *handle = new Handle{nullptr}, SUCCESS; }
int cublasDestroy_v2(Handle* handle) { return delete handle, SUCCESS; }
int cublasSetStream_v2(Handle* handle, void* stream) { return handle->stream = stream, SUCCESS; }
int cublasGetStream_v2(Handle* handle, void** stream) { return *stream = handle->stream, SUCCESS; }
int cublasSetMathMode(Handle*, int) { return SUCCESS; }
int cublasGetMathMode(Handle*, int* mode) { return *mode = 0, SUCCESS; }
int cublasSetPointerMode_v2(Handle*, int) { return SUCCESS; }
int cublasGetPointerMode_v2(Handle*, int* mode) { return *mode = 0, SUCCESS; }
int cublasSetWorkspace_v2(Handle*, void*, size_t) { return SUCCESS; }
const char* cublasGetStatusString(int status) { return status ? "error of the null card" : "success"; }

#define PRODUCT(name) \
  int name(Handle* handle) { return launch("cublas", #name, handle->stream); }
PRODUCT(cublasGemmBatchedEx)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasSgemmEx)
PRODUCT(cublasSgemmBatched)
PRODUCT(cublasSgemmStridedBatched)
PRODUCT(cublasSgemv_v2)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDotEx)
PRODUCT(cublasStrsmBatched)

// C = A · B: A, of m × k, is what llama.cpp has as weights.
int cublasGemmEx(Handle* handle, int, int, int m, int, int k, const void*, const void* a, int type) {
  uint64_t size = type == 0 ? 4 : 2; // CUDA_R_32F; the others are of 16 bits
  return launch("cublas", "cublasGemmEx", handle->stream, nullptr, work_of_product(a, size * m * k));
}
int cublasSgemm_v2(Handle* handle, int, int, int m, int, int k, const void*, const void* a) {
  return launch("cublas", "cublasSgemm_v2", handle->stream, nullptr, work_of_product(a, (uint64_t)4 * m * k));
}

} // extern "C"
