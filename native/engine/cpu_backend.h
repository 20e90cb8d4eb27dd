// ggml's CPU backend, which is a library of its own: its functions are found by their names.
#pragma once

#include <memory>

#include "ggml-cpu.h"
#include "libllama.h"

namespace hone {

/** Null where this build lacks it. */
template <typename F>
F cpuFunction(const char* name) {
  const LibLlama& lib = *libLlama();
  ggml_backend_dev_t cpu = lib.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!cpu) return nullptr;
  return reinterpret_cast<F>(lib.ggml_backend_reg_get_proc_address(lib.ggml_backend_dev_backend_reg(cpu), name));
}

struct PoolFree {
  void operator()(ggml_threadpool* pool) const;
};
using HeldPool = std::unique_ptr<ggml_threadpool, PoolFree>;

/** Threads that stay: without them ggml starts new ones for every batch. Null where this build lacks it. */
HeldPool newPool(int threads);

}  // namespace hone
