#include "cpu_backend.h"

#include "denormals.h"

namespace hone {

void PoolFree::operator()(ggml_threadpool* pool) const {
  cpuFunction<decltype(&ggml_threadpool_free)>("ggml_threadpool_free")(pool);
}

HeldPool newPool(int threads) {
  const auto create = cpuFunction<decltype(&ggml_threadpool_new)>("ggml_threadpool_new");
  if (!create) return nullptr;
  const FlushDenormals flushed;
  ggml_threadpool_params params;
  libLlama()->ggml_threadpool_params_init(&params, threads);
  return HeldPool(create(&params));
}

}  // namespace hone
