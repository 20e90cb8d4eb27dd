// The module that Node loads: finds libllama, loads engines, and exposes the sampler for tests.
#include <napi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "engine_object.h"
#include "js.h"
#include "libllama.h"
#include "own_trial.h"
#include "port.h"
#include "preload.h"
#include "quantize.h"
#include "registry.h"
#include "shared_library.h"

namespace hone {
namespace {

constexpr int kMostThreads = GGML_MAX_N_THREADS;
/** Upper bound of counts. llama.cpp allows far fewer; this bound keeps sums of them within an int. */
constexpr int kMost = 1 << 28;

EngineSettings settingsOf(const Napi::Value& value) {
  const Napi::Object object = objectOf(value, "the settings");
  const auto whole = [&](const char* name, int least, int most) { return wholeOf(object.Get(name), name, least, most); };
  EngineSettings settings;
  LlamaSettings& llama = settings.llama;
  settings.model = pathOf(object.Get("model"), "model");
  settings.name = textOf(object.Get("name"), "name");
  settings.own = flagOf(object.Get("ownDecoder"), "ownDecoder");
  settings.whyLlama = textOf(object.Get("whyLlama"), "whyLlama");
  llama.useGpu = flagOf(object.Get("useGpu"), "useGpu");
  llama.threads = whole("threads", 1, kMostThreads);
  llama.sequences = whole("sequences", 1, kMost);
  settings.lanes = whole("lanes", 1, std::min(llama.sequences, kMostThreads));
  llama.contextPerSequence = whole("contextPerSequence", 1, kMost);
  llama.batch = whole("batch", 1, kMost);
  llama.ubatch = whole("ubatch", 1, llama.batch);
  llama.exact = flagOf(object.Get("exact"), "exact");
  llama.pooled = flagOf(object.Get("pooledKv"), "pooledKv");
  llama.drawOnDevice = flagOf(object.Get("drawOnDevice"), "drawOnDevice");
  llama.drawUntried = flagOf(object.Get("drawUntried"), "drawUntried");
  // Each running sequence needs a row of logits, and scoring one more.
  llama.outputs = whole("outputs", llama.sequences + 1, 2 * kMost);
  SchedulerSettings& scheduler = settings.scheduler;
  scheduler.contextPerSlot = llama.contextPerSequence;
  scheduler.batch = llama.batch;
  scheduler.promptBatch = scheduler.ubatch = llama.ubatch;
  scheduler.pooled = llama.pooled;
  scheduler.steady = flagOf(object.Get("steadyShapes"), "steadyShapes");
  scheduler.fillGap = whole("fillGap", 0, kMost);
  scheduler.samplingThreads = whole("samplingThreads", 1, kMostThreads);
  if (totalCells(llama) > std::numeric_limits<int>::max()) {
    refuseRange(value.Env(), std::to_string(llama.sequences) + " sequences of " +
                                 std::to_string(llama.contextPerSequence) + " tokens are more than llama.cpp can count");
  }
  return settings;
}

/** llama.cpp's functions, available after `bind`. */
const LibLlama& boundLibrary() {
  if (!libLlama()) throw std::runtime_error("llama.cpp is not bound yet; call bind() first");
  return *libLlama();
}

class Loading : public Napi::AsyncWorker {
 public:
  Loading(Napi::Env env, EngineSettings settings)
      : AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)), settings_(std::move(settings)) {}
  ~Loading() override {
    if (engine_) releaseEngine(std::move(engine_));
  }
  Napi::Promise promise() const { return deferred_.Promise(); }
  void Execute() override {
    try {
      engine_ = acquireEngine(settings_);
    } catch (const std::exception& exception) {
      failure_ = Failure(exception);
      SetError(failure_.message);
    }
  }
  void OnOK() override {
    const auto use = std::make_shared<Use>(std::move(engine_));
    Port::of(Env())->hold(use);
    deferred_.Resolve(engineObject(Env(), use));
  }
  void OnError(const Napi::Error&) override { deferred_.Reject(errorOf(Env(), failure_)); }

 private:
  Napi::Promise::Deferred deferred_;
  EngineSettings settings_;
  Failure failure_;
  std::shared_ptr<Engine> engine_;
};

/** Compares the two decoders: see own_trial.h. */
class Comparing : public Napi::AsyncWorker {
 public:
  Comparing(Napi::Env env, TrialSettings settings)
      : AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)), settings_(std::move(settings)) {}
  Napi::Promise promise() const { return deferred_.Promise(); }
  void Execute() override {
    try {
      trial_ = tryOwn(settings_);
    } catch (const Unplayable& unplayable) {
      whyNot_ = unplayable.what();
    } catch (const std::exception& exception) {
      failure_ = Failure(exception);
      SetError(failure_.message);
    }
  }
  void OnOK() override {
    const auto difference = [&](const Difference& one) {
      auto object = Napi::Object::New(Env());
      object.Set("mean", one.mean);
      object.Set("most", one.most);
      return object;
    };
    auto list = Napi::Array::New(Env(), trial_.kinds.size());
    for (uint32_t i = 0; i < list.Length(); i++) {
      auto object = Napi::Object::New(Env());
      object.Set("kind", trial_.kinds[i].name);
      object.Set("rows", trial_.kinds[i].rows);
      object.Set("own", difference(trial_.kinds[i].own));
      object.Set("llama", difference(trial_.kinds[i].llama));
      list.Set(i, object);
    }
    auto result = Napi::Object::New(Env());
    result.Set("whyNot", whyNot_);
    result.Set("kinds", list);
    result.Set("refusal", trial_.refusal);
    deferred_.Resolve(result);
  }
  void OnError(const Napi::Error&) override { deferred_.Reject(errorOf(Env(), failure_)); }

 private:
  Napi::Promise::Deferred deferred_;
  TrialSettings settings_;
  OwnTrial trial_;
  std::string whyNot_;
  Failure failure_;
};

Napi::Value tryOwnDecoder(const Napi::CallbackInfo& info) {
  boundLibrary();
  const Napi::Object object = objectOf(info[0], "the settings");
  TrialSettings settings;
  settings.model = pathOf(object.Get("model"), "model");
  settings.adapter = pathOf(object.Get("adapter"), "adapter");
  settings.useGpu = flagOf(object.Get("useGpu"), "useGpu");
  settings.steady = flagOf(object.Get("steadyShapes"), "steadyShapes");
  settings.threads = wholeOf(object.Get("threads"), "threads", 1, kMostThreads);
  auto* const comparing = new Comparing(info.Env(), std::move(settings));
  const Napi::Promise promise = comparing->promise();
  comparing->Queue();
  return promise;
}

Napi::Value load(const Napi::CallbackInfo& info) {
  boundLibrary();
  auto* const loading = new Loading(info.Env(), settingsOf(info[0]));
  const Napi::Promise promise = loading->promise();
  loading->Queue();
  return promise;
}

Napi::Value devices(const Napi::CallbackInfo& info) {
  const LibLlama& lib = boundLibrary();
  auto list = Napi::Array::New(info.Env());
  for (size_t i = 0; i < lib.ggml_backend_dev_count(); i++) {
    ggml_backend_dev_t device = lib.ggml_backend_dev_get(i);
    size_t free = 0, total = 0;
    lib.ggml_backend_dev_memory(device, &free, &total);
    const auto type = lib.ggml_backend_dev_type(device);
    auto object = Napi::Object::New(info.Env());
    object.Set("name", lib.ggml_backend_dev_name(device));
    object.Set("description", lib.ggml_backend_dev_description(device));
    object.Set("backend", lib.ggml_backend_reg_name(lib.ggml_backend_dev_backend_reg(device)));
    object.Set("isGpu", type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU);
    object.Set("totalBytes", static_cast<double>(total));
    object.Set("freeBytes", static_cast<double>(free));
    list.Set(static_cast<uint32_t>(i), object);
  }
  return list;
}

/** preload(paths): before `bind`; see preload.h. */
void preload(const Napi::CallbackInfo& info) {
  if (!info[0].IsArray()) refuseKind(info[0], "the paths", "an array");
  const auto array = info[0].As<Napi::Array>();
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < array.Length(); i++) paths.push_back(pathOf(array.Get(i), "a path"));
  preloadLibraries(paths);
}

/** draw(logits, sampling, count): the sampler alone, for tests of its distribution. */
Napi::Value draw(const Napi::CallbackInfo& info) {
  const std::vector<float> logits = floatsOf(info[0], "logits");
  const SamplingParams params = samplingOf(objectOf(info[1], "the sampling"));
  const int count = wholeOf(info[2], "count", 0, kMost);
  if (logits.empty()) refuseRange(info.Env(), "logits is empty");
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  Sampler sampler;
  Draws draws;
  for (int i = 0; i < count; i++) {
    const Drawn drawn = sampler.draw(logits.data(), static_cast<int>(logits.size()), params, uniform(params.seed, i));
    tokens.push_back(drawn.token);
    logprobs.push_back(drawn.logprob);
    draws.add(drawn.draws);
  }
  auto object = Napi::Object::New(info.Env());
  object.Set("tokens", arrayOf<Napi::Int32Array>(info.Env(), tokens));
  object.Set("logprobs", arrayOf<Napi::Float32Array>(info.Env(), logprobs));
  object.Set("draws", drawsObject(info.Env(), draws));
  return object;
}

/** Receiver of llama.cpp's warnings: one listener per process, in the environment that set it last. */
struct LogListener {
  std::mutex mutex;
  std::weak_ptr<Port> port;
  std::shared_ptr<Napi::FunctionReference> function;
};

LogListener& logListener() {
  static LogListener* const instance = new LogListener;
  return *instance;
}

void tellLog(LogLevel level, const std::string& line) {
  LogListener& listener = logListener();
  std::lock_guard<std::mutex> lock(listener.mutex);
  const std::shared_ptr<Port> port = listener.port.lock();
  if (!port) return;
  port->post([function = listener.function, level, line](Napi::Env env) {
    function->Call({Napi::String::New(env, level == LogLevel::warning ? "warning" : "error"), Napi::String::New(env, line)});
  });
}

void onLog(const Napi::CallbackInfo& info) {
  if (!info[0].IsFunction() && !info[0].IsNull()) refuseKind(info[0], "the listener", "a function or null");
  LogListener& listener = logListener();
  std::lock_guard<std::mutex> lock(listener.mutex);
  if (info[0].IsFunction()) {
    // Leaked on purpose: a reference must be freed on its own thread, and the last line may be dropped on another.
    auto* const function = new Napi::FunctionReference(Napi::Persistent(info[0].As<Napi::Function>()));
    function->SuppressDestruct();
    listener.function = std::shared_ptr<Napi::FunctionReference>(function, [](Napi::FunctionReference*) {});
    listener.port = Port::of(info.Env());
    setLlamaLogSink(tellLog);
  } else {
    setLlamaLogSink(nullptr);
    listener.port.reset();
    listener.function.reset();
  }
}

void stopAll(const Napi::CallbackInfo& info) {
  const auto by = Clock::now() + std::chrono::milliseconds(info[1].As<Napi::Number>().Int32Value());
  // No part of the process may be freed under a thread that still computes.
  if (!stopEngines(by)) std::_Exit(info[0].As<Napi::Number>().Int32Value());
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  // Node unmaps an addon loaded by workers only when they end, while the decode threads run its code.
  keepThisLibrary();
  Port::create(env);
  define(exports, "bind", [](const Napi::CallbackInfo&) { bindLibLlama(); });
  define(exports, "llamaVersion", [](const Napi::CallbackInfo& info) -> Napi::Value {
    return libLlama() ? Napi::String::New(info.Env(), libLlama()->llama_version()).As<Napi::Value>() : info.Env().Null();
  });
  define(exports, "preload", preload);
  define(exports, "cudaComplaint", [](const Napi::CallbackInfo& info) -> Napi::Value {
    return Napi::String::New(info.Env(), cudaComplaint());
  });
  define(exports, "load", load);
  define(exports, "tryOwnDecoder", tryOwnDecoder);
  define(exports, "stopAll", stopAll);
  define(exports, "devices", devices);
  define(exports, "onLog", onLog);
  define(exports, "warming", [](const Napi::CallbackInfo& info) -> Napi::Value {
    return Napi::Boolean::New(info.Env(), warmingDecoders() > 0);
  });
  define(exports, "mostSequences", [](const Napi::CallbackInfo& info) -> Napi::Value {
    return Napi::Number::New(info.Env(), static_cast<double>(boundLibrary().llama_max_parallel_sequences()));
  });
  define(exports, "draw", draw);
  define(exports, "quantize", quantize);
  return exports;
}

}  // namespace
}  // namespace hone

static Napi::Object initializeAddon(Napi::Env env, Napi::Object exports) {
  try {
    return hone::initialize(env, exports);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& exception) {
    throw Napi::Error::New(env, exception.what());
  }
}

NODE_API_MODULE(hone_engine, initializeAddon)
