// cuBLASLt: descriptions are kept unread, one algorithm is proposed, a product is one launch.
#include <cstring>
#include "null_card.h"

using namespace null_card;

namespace {
constexpr int SUCCESS = 0;
constexpr size_t VERSION = 130100;
struct Description {};
int described(Description** to) { return *to = new Description, SUCCESS; }
int forgotten(Description* it) { return delete it, SUCCESS; }
// cublasLtMatmulHeuristicResult_t of the documentation.
struct Proposal {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};
} // namespace

extern "C" {

int cublasLtCreate(void** handle) { return *handle = (void*)0x3000, SUCCESS; }
int cublasLtDestroy(void*) { return SUCCESS; }
size_t cublasLtGetVersion() { return VERSION; }
int cublasLtMatmulDescCreate(Description** to, int, int) { return described(to); }
int cublasLtMatmulDescDestroy(Description* it) { return forgotten(it); }
int cublasLtMatmulDescSetAttribute(Description*, int, const void*, size_t) { return SUCCESS; }
int cublasLtMatrixLayoutCreate(Description** to, int, uint64_t, uint64_t, int64_t) { return described(to); }
int cublasLtMatrixLayoutDestroy(Description* it) { return forgotten(it); }
int cublasLtMatrixLayoutSetAttribute(Description*, int, const void*, size_t) { return SUCCESS; }
int cublasLtMatmulPreferenceCreate(Description** to) { return described(to); }
int cublasLtMatmulPreferenceDestroy(Description* it) { return forgotten(it); }
int cublasLtMatmulPreferenceSetAttribute(Description*, int, const void*, size_t) { return SUCCESS; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int most, Proposal* proposals, int* found) {
  memset(proposals, 0, sizeof(Proposal) * most);
  return *found = 1, SUCCESS;
}
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                   void*, const void*, void*, size_t, void* stream) {
  return launch("cublas", "cublasLtMatmul", stream);
}

} // extern "C"
