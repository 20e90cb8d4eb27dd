#include "engine_object.h"

#include "js.h"

namespace hone {
namespace {

const char* nameOf(Stop stop) {
  switch (stop) {
    case Stop::token:
      return "stop";
    case Stop::length:
      return "length";
    case Stop::context:
      return "context";
    case Stop::cancelled:
      return "cancelled";
    case Stop::deadline:
      return "deadline";
  }
  return "";
}

Engine& engineOf(const std::shared_ptr<Use>& use) {
  if (!use->engine) throw std::runtime_error("the engine was closed");
  return *use->engine;
}

Napi::Value idOrNull(Napi::Env env, Token token) {
  return token < 0 ? env.Null() : Napi::Number::New(env, token).As<Napi::Value>();
}

Napi::Object infoObject(Napi::Env env, const Engine& engine) {
  const Vocabulary& vocabulary = engine.vocabulary;
  const ModelInfo& model = engine.info;
  auto info = Napi::Object::New(env);
  info.Set("architecture", model.architecture);
  info.Set("weightType", model.weightType);
  info.Set("parameters", static_cast<double>(model.parameters));
  info.Set("vocabularySize", vocabulary.size());
  info.Set("trainedContext", model.trainedContext);
  info.Set("chatTemplate",
           model.hasChatTemplate ? Napi::String::New(env, model.chatTemplate).As<Napi::Value>() : env.Null());
  info.Set("bos", idOrNull(env, vocabulary.bos()));
  info.Set("eos", idOrNull(env, vocabulary.eos()));
  info.Set("eot", idOrNull(env, vocabulary.eot()));
  info.Set("pad", idOrNull(env, vocabulary.pad()));
  info.Set("bosText", vocabulary.text(vocabulary.bos()));
  info.Set("eosText", vocabulary.text(vocabulary.eos()));
  info.Set("addsBos", vocabulary.addsBos());
  const auto tokens = vocabulary.controlTokens();
  auto control = Napi::Array::New(env, tokens.size());
  for (size_t i = 0; i < tokens.size(); i++) {
    auto pair = Napi::Array::New(env, 2);
    pair.Set(0u, tokens[i].first);
    pair.Set(1u, tokens[i].second);
    control.Set(static_cast<uint32_t>(i), pair);
  }
  info.Set("controlTokens", control);
  info.Set("endTokens", arrayOf<Napi::Int32Array>(env, vocabulary.endTokens()));
  return info;
}

Napi::Object memoryObject(Napi::Env env, const Engine& engine) {
  auto memory = Napi::Object::New(env);
  memory.Set("weights", static_cast<double>(engine.weightBytes()));
  memory.Set("kv", static_cast<double>(engine.kvBytes()));
  memory.Set("kvPerSequence", static_cast<double>(engine.kvBytesPerSequence()));
  return memory;
}

Napi::Object statsObject(Napi::Env env, const Stats& stats) {
  auto object = Napi::Object::New(env);
  const auto set = [&](const char* key, auto value) { object.Set(key, static_cast<double>(value)); };
  set("decoded", stats.decoded);
  set("prefilled", stats.prefilled);
  set("reused", stats.reused);
  set("batches", stats.batches);
  set("forks", stats.forks);
  set("moves", stats.moves);
  set("evicted", stats.evicted);
  set("decodeSeconds", stats.decodeSeconds);
  set("samplingSeconds", stats.samplingSeconds);
  set("schedulingSeconds", stats.schedulingSeconds);
  set("waitingSeconds", stats.waitingSeconds);
  set("threads", stats.threads);
  set("open", stats.open);
  set("running", stats.running);
  set("queued", stats.queued);
  return object;
}

/** What `generate` and `score` return: the promise, and the id by which it can be cancelled. */
Napi::Object underWay(Napi::Env env, TurnId turn, const Napi::Promise& promise) {
  auto object = Napi::Object::New(env);
  object.Set("turn", static_cast<double>(turn));
  object.Set("promise", promise);
  return object;
}

Napi::Value generate(const Napi::CallbackInfo& info, Engine& engine) {
  const Napi::Env env = info.Env();
  const auto options = info[1].As<Napi::Object>();
  TurnRequest request;
  if (options.Get("append").IsTypedArray()) request.append = tokensOf(options.Get("append"));
  request.maxTokens = wholeOf(options, "maxTokens");
  request.sampling = samplingOf(options);
  request.stop = tokensOf(options.Get("stop"));
  request.deadline = static_cast<int64_t>(numberOf(options, "deadline"));
  auto [promise, settle] = Port::of(env)->promise(env);
  const auto done = [settle = std::move(settle)](TurnResult result) {
    settle([result = std::move(result)](Napi::Env env, Napi::Promise::Deferred& deferred) {
      auto object = Napi::Object::New(env);
      object.Set("tokens", arrayOf<Napi::Int32Array>(env, result.tokens));
      object.Set("logprobs", arrayOf<Napi::Float32Array>(env, result.logprobs));
      object.Set("rawLogprobs", arrayOf<Napi::Float32Array>(env, result.rawLogprobs));
      object.Set("stop", nameOf(result.stop));
      object.Set("length", result.length);
      object.Set("waitedMs", result.waitedMs);
      object.Set("error", result.error);
      deferred.Resolve(object);
    });
  };
  const auto sequence = static_cast<SequenceId>(info[0].As<Napi::Number>().DoubleValue());
  return underWay(env, engine.lanes.generate(sequence, std::move(request), done), promise);
}

Napi::Value score(const Napi::CallbackInfo& info, Engine& engine, OwnerId owner) {
  const Napi::Env env = info.Env();
  auto [promise, settle] = Port::of(env)->promise(env);
  const auto done = [settle = std::move(settle)](ScoreResult result) {
    settle([result = std::move(result)](Napi::Env env, Napi::Promise::Deferred& deferred) {
      auto object = Napi::Object::New(env);
      object.Set("logprobs", arrayOf<Napi::Float32Array>(env, result.logprobs));
      object.Set("cancelled", result.cancelled);
      object.Set("error", result.error);
      deferred.Resolve(object);
    });
  };
  const TurnId turn = engine.lanes.score(owner, tokensOf(info[0]), info[1].ToNumber().Int32Value(), done);
  return underWay(env, turn, promise);
}

/** A promise for a command of the scheduler. */
template <typename Start>
Napi::Value commanded(Napi::Env env, Start start) {
  auto [promise, settle] = Port::of(env)->promise(env);
  start([settle = std::move(settle)](const std::string& error) {
    settle([error](Napi::Env env, Napi::Promise::Deferred& deferred) {
      error.empty() ? deferred.Resolve(env.Undefined()) : deferred.Reject(errorOf(env, error));
    });
  });
  return promise;
}

/** Freeing a model can take a while: not on JavaScript's thread. */
class Closing : public Napi::AsyncWorker {
 public:
  Closing(Napi::Env env, std::shared_ptr<Engine> engine)
      : AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)), engine_(std::move(engine)) {}
  Napi::Promise promise() const { return deferred_.Promise(); }
  void Execute() override {
    if (engine_) releaseEngine(std::move(engine_));
  }
  void OnOK() override { deferred_.Resolve(Env().Undefined()); }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  Napi::Promise::Deferred deferred_;
  std::shared_ptr<Engine> engine_;
};

}  // namespace

Napi::Object engineObject(Napi::Env env, const std::shared_ptr<Use>& use) {
  using Info = const Napi::CallbackInfo&;
  auto object = Napi::Object::New(env);
  define(object, "info", [use](Info info) -> Napi::Value { return infoObject(info.Env(), engineOf(use)); });
  define(object, "memory", [use](Info info) -> Napi::Value { return memoryObject(info.Env(), engineOf(use)); });
  define(object, "stats", [use](Info info) -> Napi::Value {
    return statsObject(info.Env(), engineOf(use).lanes.stats());
  });
  define(object, "tokenize", [use](Info info) -> Napi::Value {
    const std::string text = info[0].As<Napi::String>();
    return arrayOf<Napi::Int32Array>(info.Env(), engineOf(use).vocabulary.tokenize(text, info[1].ToBoolean()));
  });
  define(object, "bytes", [use](Info info) -> Napi::Value {
    const std::string bytes = engineOf(use).vocabulary.bytes(tokensOf(info[0]), info[1].ToBoolean());
    auto array = Napi::Uint8Array::New(info.Env(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), array.Data());
    return array;
  });
  define(object, "open", [use](Info info) -> Napi::Value {
    Engine& engine = engineOf(use);
    const std::vector<Token> prompt = tokensOf(info[0]);
    const GroupId group = engine.lanes.newGroup();
    std::vector<double> ids(info[1].ToNumber().Uint32Value());
    for (double& id : ids) id = static_cast<double>(engine.lanes.open(use->owner, group, prompt));
    return arrayOf<Napi::Float64Array>(info.Env(), ids);
  });
  define(object, "generate", [use](Info info) -> Napi::Value { return generate(info, engineOf(use)); });
  define(object, "score", [use](Info info) -> Napi::Value { return score(info, engineOf(use), use->owner); });
  define(object, "cancel", [use](Info info) {
    if (use->engine) use->engine->lanes.cancel(static_cast<TurnId>(info[0].ToNumber().DoubleValue()));
  });
  define(object, "closeSequence", [use](Info info) {
    if (use->engine) use->engine->lanes.close(static_cast<SequenceId>(info[0].ToNumber().DoubleValue()));
  });
  define(object, "setThreads", [use](Info info) {
    if (use->engine) use->engine->lanes.setThreads(info[0].ToNumber().Int32Value());
  });
  define(object, "adapter", [use](Info info) -> Napi::Value {
    return Napi::String::New(info.Env(), engineOf(use).lanes.adapter());
  });
  define(object, "useAdapter", [use](Info info) -> Napi::Value {
    const std::string path = info[0].As<Napi::String>();
    return commanded(info.Env(), [&](CommandDone done) { engineOf(use).lanes.useAdapter(path, std::move(done)); });
  });
  define(object, "sleep", [use](Info info) -> Napi::Value {
    const bool weights = info[0].ToBoolean();
    return commanded(info.Env(), [&](CommandDone done) { engineOf(use).lanes.sleep(weights, std::move(done)); });
  });
  define(object, "wake", [use](Info info) -> Napi::Value {
    return commanded(info.Env(), [&](CommandDone done) { engineOf(use).lanes.wake(std::move(done)); });
  });
  define(object, "close", [use](Info info) -> Napi::Value {
    Port::of(info.Env())->drop(use);
    auto* const closing = new Closing(info.Env(), use->end());
    const Napi::Promise promise = closing->promise();
    closing->Queue();
    return promise;
  });
  return object;
}

}  // namespace hone
