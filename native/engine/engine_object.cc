#include "engine_object.h"

#include "grammar.h"
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

/** Maximum number of sequences of one group. */
constexpr int kMostMembers = 1 << 20;
/** Likeliest tokens reported with a sampled one at most. */
constexpr int kMostLikely = 1024;

Engine& engineOf(const Use& use) {
  if (!use.engine) throw std::runtime_error("the engine was closed");
  return *use.engine;
}

Napi::Value idOrNull(Napi::Env env, Token token) {
  return token < 0 ? env.Null() : Napi::Number::New(env, token).As<Napi::Value>();
}

/** [text, id] of each. */
Napi::Array pairsOf(Napi::Env env, const std::vector<std::pair<std::string, Token>>& tokens) {
  auto pairs = Napi::Array::New(env, tokens.size());
  for (size_t i = 0; i < tokens.size(); i++) {
    auto pair = Napi::Array::New(env, 2);
    pair.Set(0u, tokens[i].first);
    pair.Set(1u, tokens[i].second);
    pairs.Set(static_cast<uint32_t>(i), pair);
  }
  return pairs;
}

Napi::Object infoObject(Napi::Env env, const Engine& engine) {
  const Vocabulary& vocabulary = engine.vocabulary;
  const ModelInfo& model = engine.info;
  auto info = Napi::Object::New(env);
  info.Set("architecture", model.architecture);
  info.Set("weightType", model.weightType);
  info.Set("parameters", static_cast<double>(model.parameters));
  info.Set("vocabularySize", vocabulary.size());
  info.Set("longestToken", static_cast<double>(vocabulary.longest()));
  info.Set("trainedContext", model.trainedContext);
  info.Set("chatTemplate",
           model.hasChatTemplate ? Napi::String::New(env, model.chatTemplate).As<Napi::Value>() : env.Null());
  info.Set("toolTemplate", model.toolTemplate.empty()
                               ? env.Null()
                               : Napi::String::New(env, model.toolTemplate).As<Napi::Value>());
  info.Set("bos", idOrNull(env, vocabulary.bos()));
  info.Set("eos", idOrNull(env, vocabulary.eos()));
  info.Set("eot", idOrNull(env, vocabulary.eot()));
  info.Set("pad", idOrNull(env, vocabulary.pad()));
  info.Set("bosText", vocabulary.text(vocabulary.bos()));
  info.Set("eosText", vocabulary.text(vocabulary.eos()));
  info.Set("addsBos", vocabulary.addsBos());
  info.Set("controlTokens", pairsOf(env, vocabulary.controlTokens()));
  info.Set("addedTokens", pairsOf(env, vocabulary.addedTokens()));
  const LlamaReport report = engine.report();
  info.Set("device", report.device);
  info.Set("offloadedLayers", std::max(0, report.offloadedLayers));
  // llama.cpp counts the output as a layer. A build without GPU reports no layers.
  info.Set("layers", report.layers < 0 ? model.layers + 1 : report.layers);
  info.Set("kv", engine.fullKv() ? "F32" : "F16");
  info.Set("flashAttention", report.flashAttention < 0
                                 ? env.Null()
                                 : Napi::Boolean::New(env, report.flashAttention == 1).As<Napi::Value>());
  info.Set("adapters", report.adapters);
  info.Set("sampling", engine.samplesOnDevice() ? "device" : "host");
  info.Set("whyHost", engine.whyHost());
  info.Set("whyLlama", engine.whyLlama());
  info.Set("endTokens", arrayOf<Napi::Int32Array>(env, vocabulary.endTokens()));
  return info;
}

Napi::Object memoryObject(Napi::Env env, const Engine& engine) {
  auto memory = Napi::Object::New(env);
  memory.Set("weights", static_cast<double>(engine.weightBytes()));
  memory.Set("kv", static_cast<double>(engine.kvBytes()));
  memory.Set("kvPerSequence", static_cast<double>(engine.kvBytesPerSequence()));
  auto buffers = Napi::Array::New(env);
  for (const auto& [place, bytes] : engine.report().buffers) {
    auto buffer = Napi::Object::New(env);
    buffer.Set("place", place);
    buffer.Set("weights", static_cast<double>(bytes.weights));
    buffer.Set("adapters", static_cast<double>(bytes.adapters));
    buffer.Set("kv", static_cast<double>(bytes.kv));
    buffer.Set("compute", static_cast<double>(bytes.compute));
    buffer.Set("output", static_cast<double>(bytes.output));
    buffers.Set(buffers.Length(), buffer);
  }
  memory.Set("buffers", buffers);
  return memory;
}

Napi::Object statsObject(Napi::Env env, const Stats& stats) {
  auto object = Napi::Object::New(env);
  Stats::each([&](const std::string& group, const char* name, auto member) {
    if (!group.empty() && !object.Has(group)) object.Set(group, Napi::Object::New(env));
    Napi::Object within = group.empty() ? object : object.Get(group).As<Napi::Object>();
    within.Set(name, static_cast<double>(stats.*member));
  });
  return object;
}

/** Of a turn's result: the failure as an Error, null for none. */
void setError(Napi::Env env, Napi::Object result, const Failure& failure) {
  result.Set("error", failure.empty() ? env.Null() : errorOf(env, failure));
}

/** The result of `generate` and `score`: the promise, and the id by which it can be cancelled. */
Napi::Object underWay(Napi::Env env, TurnId turn, const Napi::Promise& promise) {
  auto object = Napi::Object::New(env);
  object.Set("turn", static_cast<double>(turn));
  object.Set("promise", promise);
  return object;
}

/** Starts work that settles a promise. If `start` throws, the promise is rejected: a pending one keeps Node alive. */
template <typename Start>
void begin(const Port::Settle& settle, Start start) {
  try {
    start();
  } catch (const std::exception& exception) {
    settle([failure = Failure(exception)](Napi::Env env, Napi::Promise::Deferred& deferred) {
      deferred.Reject(errorOf(env, failure));
    });
  }
}

TurnRequest requestOf(const Napi::Object& options) {
  TurnRequest request;
  const Napi::Value append = options.Get("append");
  if (!append.IsUndefined()) request.append = tokensOf(append, "append");
  request.maxTokens = wholeOf(options.Get("maxTokens"), "maxTokens", 1);
  request.sampling = samplingOf(options);
  request.stop = tokensOf(options.Get("stop"), "stop");
  request.limitMs = wholeOf(options.Get("limitMs"), "limitMs", 0);
  const Napi::Value likeliest = options.Get("likeliest");
  if (!likeliest.IsUndefined()) request.likeliest = wholeOf(likeliest, "likeliest", 0, kMostLikely);
  return request;
}

std::vector<std::string> textsOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsArray()) refuseKind(value, name, "an array");
  const auto array = value.As<Napi::Array>();
  std::vector<std::string> texts(array.Length());
  for (uint32_t i = 0; i < array.Length(); i++) texts[i] = textOf(array.Get(i), name + "'s text");
  return texts;
}

GrammarSpec grammarOf(const Napi::Object& options, const TurnRequest& request) {
  GrammarSpec spec;
  spec.rules = textOf(options.Get("rules"), "grammar.rules");
  spec.thoughtsOpen = textOf(options.Get("thoughtsOpen"), "grammar.thoughtsOpen");
  spec.thoughtsClose = textOf(options.Get("thoughtsClose"), "grammar.thoughtsClose");
  spec.opened = flagOf(options.Get("opened"), "grammar.opened");
  spec.lazy = flagOf(options.Get("lazy"), "grammar.lazy");
  spec.marks = textsOf(options.Get("marks"), "grammar.marks");
  spec.firstMarks = textsOf(options.Get("firstMarks"), "grammar.firstMarks");
  spec.before = tokensOf(options.Get("before"), "grammar.before");
  spec.stop = request.stop;
  return spec;
}

Napi::Object allowedObject(Napi::Env env, const AllowedSets& allowed) {
  auto object = Napi::Object::New(env);
  object.Set("numbers", arrayOf<Napi::Int32Array>(env, allowed.numbers()));
  auto sets = Napi::Array::New(env, allowed.sets().size());
  for (uint32_t i = 0; i < sets.Length(); i++) sets.Set(i, arrayOf<Napi::Uint8Array>(env, allowed.sets()[i]));
  object.Set("sets", sets);
  return object;
}

Napi::Value sampledObject(Napi::Env env, const Sampled& sampled, bool likeliest) {
  auto object = Napi::Object::New(env);
  object.Set("token", sampled.token);
  object.Set("logprob", sampled.logprob);
  if (!likeliest) return object;
  object.Set("own", sampled.own);
  auto list = Napi::Array::New(env, sampled.likeliest.size());
  for (size_t i = 0; i < sampled.likeliest.size(); i++) {
    auto one = Napi::Object::New(env);
    one.Set("token", sampled.likeliest[i].token);
    one.Set("logprob", sampled.likeliest[i].logprob);
    list.Set(static_cast<uint32_t>(i), one);
  }
  object.Set("likeliest", list);
  return object;
}

// Arguments are read before the engine is used: one of their getters may close it.

Napi::Value generate(const Napi::CallbackInfo& info, const Use& use) {
  const Napi::Env env = info.Env();
  const SequenceId sequence = idOf(info[0], "the sequence");
  const Napi::Object options = objectOf(info[1], "the turn");
  TurnRequest request = requestOf(options);
  const Napi::Value listener = options.Get("onToken");
  if (!listener.IsUndefined() && !listener.IsFunction()) refuseKind(listener, "onToken", "a function");
  const Napi::Value grammar = options.Get("grammar");
  GrammarSpec spec;
  if (!grammar.IsUndefined()) {
    spec = grammarOf(objectOf(grammar, "the grammar"), request);
    if (flagOf(grammar.As<Napi::Object>().Get("restricts"), "grammar.restricts")) {
      request.allowed = std::make_shared<AllowedSets>();
    }
  }
  Engine& engine = engineOf(use);
  checkTokens(env, request.append, "append", engine.vocabulary.size());
  checkTokens(env, request.stop, "stop", engine.vocabulary.size());
  checkTokens(env, spec.before, "grammar.before", engine.vocabulary.size());
  if (!grammar.IsUndefined()) request.constraint = newGrammar(engine.vocabulary, std::move(spec));
  const std::shared_ptr<Port> port = Port::of(env);
  auto [promise, settle] = port->promise(env);
  const uint64_t kept = listener.IsFunction() ? port->keep(listener.As<Napi::Function>()) : 0;
  if (kept != 0) {
    request.sampled = [port, kept, likeliest = request.likeliest >= 0](Sampled sampled) {
      port->call(kept, [sampled = std::move(sampled), likeliest](Napi::Env env) {
        return sampledObject(env, sampled, likeliest);
      });
    };
  }
  const auto done = [settle = settle, port, kept, allowed = request.allowed](TurnResult result) {
    settle([result = std::move(result), port, kept, allowed](Napi::Env env, Napi::Promise::Deferred& deferred) {
      port->forget(kept);
      auto object = Napi::Object::New(env);
      object.Set("tokens", arrayOf<Napi::Int32Array>(env, result.tokens));
      object.Set("logprobs", arrayOf<Napi::Float32Array>(env, result.logprobs));
      object.Set("stop", nameOf(result.stop));
      object.Set("length", result.length);
      object.Set("waitedMs", result.waitedMs);
      object.Set("usedMs", result.usedMs);
      object.Set("digest", result.digest);
      object.Set("temperature", result.sampling.temperature);
      object.Set("truncated", result.sampling.truncates());
      object.Set("foreign", result.foreign);
      object.Set("seed", static_cast<double>(result.sampling.seed));
      object.Set("draws", drawsObject(env, result.draws));
      if (allowed) object.Set("allowed", allowedObject(env, *allowed));
      setError(env, object, result.error);
      deferred.Resolve(object);
    });
  };
  TurnId turn = 0;
  begin(settle, [&] { turn = engine.lanes.generate(sequence, std::move(request), done); });
  return underWay(env, turn, promise);
}

Napi::Value score(const Napi::CallbackInfo& info, const Use& use) {
  const Napi::Env env = info.Env();
  std::vector<Token> tokens = tokensOf(info[0], "the tokens");
  Engine& engine = engineOf(use);
  checkTokens(env, tokens, "the score", engine.vocabulary.size());
  const int room = engine.settings.llama.contextPerSequence;
  if (tokens.size() < 2 || tokens.size() > static_cast<size_t>(room)) {
    refuseRange(env, std::to_string(tokens.size()) + " tokens cannot be scored; it takes from 2 to " + std::to_string(room));
  }
  const int from = wholeOf(info[1], "from", 1, static_cast<int>(tokens.size()) - 1);
  const int likeliest = wholeOf(info[2], "likeliest", 0, kMostLikely);
  auto [promise, settle] = Port::of(env)->promise(env);
  const auto done = [settle = settle](ScoreResult result) {
    settle([result = std::move(result)](Napi::Env env, Napi::Promise::Deferred& deferred) {
      std::vector<Token> likely;
      std::vector<float> logprobs;
      for (const Likely& one : result.likeliest) {
        likely.push_back(one.token);
        logprobs.push_back(one.logprob);
      }
      auto object = Napi::Object::New(env);
      object.Set("logprobs", arrayOf<Napi::Float32Array>(env, result.logprobs));
      object.Set("likely", arrayOf<Napi::Int32Array>(env, likely));
      object.Set("likelyLogprobs", arrayOf<Napi::Float32Array>(env, logprobs));
      object.Set("cancelled", result.cancelled);
      setError(env, object, result.error);
      deferred.Resolve(object);
    });
  };
  TurnId turn = 0;
  begin(settle, [&] { turn = engine.lanes.score(use.owner, std::move(tokens), from, likeliest, done); });
  return underWay(env, turn, promise);
}

/** Opens a group; returns its ids. */
Napi::Value open(const Napi::CallbackInfo& info, const Use& use) {
  const std::vector<Token> prompt = tokensOf(info[0], "the prompt");
  std::vector<double> ids(static_cast<size_t>(wholeOf(info[1], "count", 1, kMostMembers)));
  Engine& engine = engineOf(use);
  checkTokens(info.Env(), prompt, "the prompt", engine.vocabulary.size());
  const int room = engine.settings.llama.contextPerSequence;
  if (prompt.empty() || prompt.size() >= static_cast<size_t>(room)) {
    refuseRange(info.Env(), "the prompt has " + std::to_string(prompt.size()) + " tokens; it must have from 1 to " +
                                std::to_string(room - 1));
  }
  const GroupId group = engine.lanes.newGroup();
  for (double& id : ids) id = static_cast<double>(engine.lanes.open(use.owner, group, prompt));
  return arrayOf<Napi::Float64Array>(info.Env(), ids);
}

/** A promise for a command of the scheduler. */
template <typename Start>
Napi::Value commanded(Napi::Env env, const Use& use, Start start) {
  Lanes& lanes = engineOf(use).lanes;
  auto [promise, settle] = Port::of(env)->promise(env);
  const auto done = [settle = settle](const Failure& failure) {
    settle([failure](Napi::Env env, Napi::Promise::Deferred& deferred) {
      failure.empty() ? deferred.Resolve(env.Undefined()) : deferred.Reject(errorOf(env, failure));
    });
  };
  begin(settle, [&] { start(lanes, done); });
  return promise;
}

/** Freeing a model can take a while: not done on JavaScript's thread. */
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

/** Tokenising megabytes takes seconds: not done on JavaScript's thread. */
class Tokenising : public Napi::AsyncWorker {
 public:
  Tokenising(Napi::Env env, std::shared_ptr<Engine> engine, std::string text, bool special)
      : AsyncWorker(env),
        deferred_(Napi::Promise::Deferred::New(env)),
        engine_(std::move(engine)),
        text_(std::move(text)),
        special_(special) {}
  Napi::Promise promise() const { return deferred_.Promise(); }
  void Execute() override {
    try {
      tokens_ = engine_->vocabulary.tokenize(text_, special_);
    } catch (const std::exception& exception) {
      SetError(exception.what());
    }
    releaseEngine(std::move(engine_));
  }
  void OnOK() override { deferred_.Resolve(arrayOf<Napi::Int32Array>(Env(), tokens_)); }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  Napi::Promise::Deferred deferred_;
  std::shared_ptr<Engine> engine_;
  std::string text_;
  bool special_;
  std::vector<Token> tokens_;
};

}  // namespace

Napi::Object engineObject(Napi::Env env, const std::shared_ptr<Use>& use) {
  using Info = const Napi::CallbackInfo&;
  auto object = Napi::Object::New(env);
  define(object, "info", [use](Info info) -> Napi::Value { return infoObject(info.Env(), engineOf(*use)); });
  define(object, "memory", [use](Info info) -> Napi::Value { return memoryObject(info.Env(), engineOf(*use)); });
  define(object, "stats", [use](Info info) -> Napi::Value {
    return statsObject(info.Env(), engineOf(*use).lanes.stats());
  });
  define(object, "rounds", [use](Info info) -> Napi::Value {
    const std::vector<uint64_t> rounds = engineOf(*use).lanes.rounds();
    return arrayOf<Napi::Float64Array>(info.Env(), std::vector<double>(rounds.begin(), rounds.end()));
  });
  define(object, "tokenize", [use](Info info) -> Napi::Value {
    const std::string text = textOf(info[0], "the text");
    const bool special = flagOf(info[1], "special");
    return arrayOf<Napi::Int32Array>(info.Env(), engineOf(*use).vocabulary.tokenize(text, special));
  });
  define(object, "tokenizeAside", [use](Info info) -> Napi::Value {
    const std::string text = textOf(info[0], "the text");
    const bool special = flagOf(info[1], "special");
    engineOf(*use);
    auto* const tokenising = new Tokenising(info.Env(), use->engine, text, special);
    const Napi::Promise promise = tokenising->promise();
    tokenising->Queue();
    return promise;
  });
  define(object, "bytes", [use](Info info) -> Napi::Value {
    const std::vector<Token> tokens = tokensOf(info[0], "the tokens");
    const Vocabulary& vocabulary = engineOf(*use).vocabulary;
    checkTokens(info.Env(), tokens, "the tokens", vocabulary.size());
    const std::string bytes = vocabulary.bytes(tokens, flagOf(info[1], "special"));
    auto array = Napi::Uint8Array::New(info.Env(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), array.Data());
    return array;
  });
  define(object, "open", [use](Info info) -> Napi::Value { return open(info, *use); });
  define(object, "generate", [use](Info info) -> Napi::Value { return generate(info, *use); });
  define(object, "score", [use](Info info) -> Napi::Value { return score(info, *use); });
  define(object, "cancel", [use](Info info) {
    const TurnId turn = idOf(info[0], "the turn");
    if (use->engine) use->engine->lanes.cancel(turn);
  });
  define(object, "closeSequence", [use](Info info) {
    const SequenceId sequence = idOf(info[0], "the sequence");
    if (use->engine) use->engine->lanes.close(sequence);
  });
  define(object, "setThreads", [use](Info info) {
    const int threads = wholeOf(info[0], "threads", 1);
    if (use->engine) use->engine->lanes.setThreads(threads);
  });
  define(object, "adapter", [use](Info info) -> Napi::Value {
    return Napi::String::New(info.Env(), engineOf(*use).lanes.adapter());
  });
  define(object, "useAdapter", [use](Info info) -> Napi::Value {
    const std::string path = pathOf(info[0], "the adapter's path");
    return commanded(info.Env(), *use, [&](Lanes& lanes, CommandDone done) { lanes.useAdapter(path, std::move(done)); });
  });
  define(object, "sleep", [use](Info info) -> Napi::Value {
    const bool weights = flagOf(info[0], "weights");
    return commanded(info.Env(), *use, [&](Lanes& lanes, CommandDone done) { lanes.sleep(weights, std::move(done)); });
  });
  define(object, "wake", [use](Info info) -> Napi::Value {
    const EngineSettings& settings = engineOf(*use).settings;
    const int most = settings.llama.sequences;
    const int slots = info[0].IsUndefined() ? 0 : wholeOf(info[0], "sequences", settings.lanes, most);
    return commanded(info.Env(), *use, [&](Lanes& lanes, CommandDone done) { lanes.wake(slots, std::move(done)); });
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
