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
PRODUCT(cublasGemmEx)
PRODUCT(cublasGemmBatchedEx)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasSgemm_v2)
PRODUCT(cublasSgemmEx)
PRODUCT(cublasSgemmBatched)
PRODUCT(cublasSgemmStridedBatched)
PRODUCT(cublasSgemv_v2)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDotEx)
PRODUCT(cublasStrsmBatched)

} // extern "C"
