#include "quantize.h"

#include <map>
#include <stdexcept>
#include <string>

#include "js.h"
#include "libllama.h"

namespace hone {
namespace {

const std::map<std::string, llama_ftype> kTypes = {
    {"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
    {"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M},
};

class Quantising : public Napi::AsyncWorker {
 public:
  Quantising(Napi::Env env, std::string from, std::string to, llama_ftype type, int threads)
      : AsyncWorker(env),
        deferred_(Napi::Promise::Deferred::New(env)),
        from_(std::move(from)),
        to_(std::move(to)),
        type_(type),
        threads_(threads) {}
  Napi::Promise promise() const { return deferred_.Promise(); }
  void Execute() override {
    try {
      const LibLlama& lib = *libLlama();
      llama_model_quantize_params params = lib.llama_model_quantize_default_params();
      params.ftype = type_;
      params.nthread = threads_;
      forgetLlamaErrors();
      if (lib.llama_model_quantize(from_.c_str(), to_.c_str(), &params) != 0) {
        throwLlamaError("the weights could not be quantised");
      }
    } catch (const std::exception& exception) {
      failure_ = Failure(exception);
      SetError(failure_.message);
    }
  }
  void OnOK() override { deferred_.Resolve(Env().Undefined()); }
  void OnError(const Napi::Error&) override { deferred_.Reject(errorOf(Env(), failure_)); }

 private:
  Napi::Promise::Deferred deferred_;
  std::string from_, to_;
  llama_ftype type_;
  int threads_;
  Failure failure_;
};

}  // namespace

Napi::Value quantize(const Napi::CallbackInfo& info) {
  if (!libLlama()) throw std::runtime_error("llama.cpp is not bound yet; call bind() first");
  const std::string from = pathOf(info[0], "from");
  const std::string to = pathOf(info[1], "to");
  const auto type = kTypes.find(textOf(info[2], "type"));
  if (type == kTypes.end()) refuseRange(info.Env(), "type is none that weights are quantised to");
  const int threads = wholeOf(info[3], "threads", 1, GGML_MAX_N_THREADS);
  auto* const quantising = new Quantising(info.Env(), from, to, type->second, threads);
  const Napi::Promise promise = quantising->promise();
  quantising->Queue();
  return promise;
}

}  // namespace hone
