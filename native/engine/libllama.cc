#include "libllama.h"

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "failure.h"
#include "report.h"
#include "shared_library.h"

namespace hone {
namespace {

LibLlama functions;
std::atomic<bool> bound{false};
std::atomic<void (*)(LogLevel, const std::string&)> logSink{nullptr};
/** Errors of this thread, for the reason of a failure. */
thread_local std::string errors;
thread_local bool memoryLacks = false;

/** llama.cpp ends a line with "\n"; a piece without one is continued. Info goes to listeners; debug is dropped. */
void onLog(ggml_log_level level, const char* text, void*) {
  static thread_local std::string line;
  static thread_local ggml_log_level current = GGML_LOG_LEVEL_NONE;
  if (level != GGML_LOG_LEVEL_CONT) current = level;
  LlamaReport* const report = Listening::current();
  const bool told = current == GGML_LOG_LEVEL_WARN || current == GGML_LOG_LEVEL_ERROR;
  if (!told && !(report && current == GGML_LOG_LEVEL_INFO)) return;
  line += text;
  if (line.empty() || line.back() != '\n') return;
  line.pop_back();
  if (report) hear(*report, line);
  if (!told) return line.clear();
  if (current == GGML_LOG_LEVEL_ERROR) {
    if (errors.size() < 1000) errors += (errors.empty() ? "" : "; ") + line;
    memoryLacks = memoryLacks || saysOutOfMemory(line.c_str());
  }
  if (auto sink = logSink.load()) sink(current == GGML_LOG_LEVEL_WARN ? LogLevel::warning : LogLevel::error, line);
  line.clear();
}

/**
 * Struct parameters are passed by value: with another layout than in our headers, memory would be corrupted silently.
 * Their documented defaults, read with our layout, reveal it.
 */
bool layoutIsOurs(const LibLlama& lib) {
  const llama_context_params context = lib.llama_context_default_params();
  const llama_model_params model = lib.llama_model_default_params();
  return context.n_ctx == 512 && context.n_batch == 2048 && context.n_ubatch == 512 && context.n_seq_max == 1 &&
         context.yarn_beta_slow == -1.0f && context.defrag_thold == -1.0f && context.type_k == GGML_TYPE_F16 &&
         context.type_v == GGML_TYPE_F16 && !context.embeddings && context.offload_kqv && context.op_offload &&
         context.swa_full && !context.kv_unified && !context.samplers && context.n_samplers == 0 &&
         !context.ctx_other && model.n_gpu_layers == -1 && model.split_mode == LLAMA_SPLIT_MODE_LAYER &&
         model.load_mode == LLAMA_LOAD_MODE_AUTO && model.main_gpu == 0 && !model.kv_overrides && !model.vocab_only &&
         model.use_extra_bufts && !model.no_alloc;
}

constexpr const char* kReinstall =
    "; node-llama-cpp and hone's addon must come from one installation: run `yarn install --force`";

}  // namespace

const LibLlama* libLlama() { return bound ? &functions : nullptr; }

std::string compiledLlamaVersion() { return HONE_LLAMA_VERSION; }

void forgetLlamaErrors() {
  errors.clear();
  memoryLacks = false;
}

bool llamaLacksMemory() { return memoryLacks; }

void throwLlamaError(const std::string& what) {
  const std::string message = what + ": " + (errors.empty() ? "llama.cpp gave no reason" : errors);
  const bool memory = memoryLacks;
  forgetLlamaErrors();
  if (memory) throw OutOfMemory(message);
  throw std::runtime_error(message);
}

void setLlamaLogSink(void (*sink)(LogLevel, const std::string&)) { logSink = sink; }

void bindLibLlama() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (bound) return;

  const std::set<std::string> paths = loadedLibLlamas();
  if (paths.empty()) throw std::runtime_error("node-llama-cpp has not loaded llama.cpp into this process");
  if (paths.size() > 1) {
    std::string all;
    for (const std::string& path : paths) all += (all.empty() ? "" : " and ") + path;
    throw std::runtime_error("two builds of llama.cpp are loaded in one process: " + all +
                             "; choose one `gpu` for the whole process");
  }
  void* library = keepLibrary(*paths.begin());

  LibLlama lib;
#define HONE_RESOLVE(name)                                                                 \
  lib.name = reinterpret_cast<decltype(lib.name)>(functionOf(library, #name));             \
  if (!lib.name) {                                                                         \
    throw std::runtime_error(std::string("llama.cpp of node-llama-cpp has no " #name) + kReinstall); \
  }
  HONE_LLAMA_FUNCTIONS(HONE_RESOLVE)
#undef HONE_RESOLVE

  const std::string version = lib.llama_version();
  // Builds made outside llama.cpp's release process have the version "0.5.0-dev".
  if (version.substr(0, version.find('-')) != compiledLlamaVersion()) {
    throw std::runtime_error("hone's addon was built for llama.cpp " + compiledLlamaVersion() +
                             ", but node-llama-cpp has loaded " + version + kReinstall);
  }
  if (!layoutIsOurs(lib)) {
    throw std::runtime_error("the parameters of llama.cpp " + version +
                             " are not laid out as in the headers of hone's addon" + kReinstall);
  }
  lib.llama_log_set(onLog, nullptr);
  functions = lib;
  bound = true;
}

}  // namespace hone
