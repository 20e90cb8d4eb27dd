#include "port.h"

#include <atomic>

namespace hone {
namespace {

std::atomic<OwnerId> lastOwner{0};

}  // namespace

Use::Use(std::shared_ptr<Engine> used) : engine(std::move(used)), owner(++lastOwner) {}

std::shared_ptr<Engine> Use::end() {
  if (engine) engine->lanes.closeAll(owner);
  return std::move(engine);
}

Port::Port(Napi::Env env) {
  const auto nothing = Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  function_ = Napi::ThreadSafeFunction::New(env, nothing, "hone engine", 0, 1);
  function_.Unref(env);
}

void Port::create(Napi::Env env) {
  auto* const held = new std::shared_ptr<Port>(new Port(env));
  env.SetInstanceData<std::shared_ptr<Port>>(held);
  // Added after the function's own hook, so it runs before that: hooks run in reverse.
  env.AddCleanupHook([port = *held] { port->end(); });
}

std::shared_ptr<Port> Port::of(Napi::Env env) { return *env.GetInstanceData<std::shared_ptr<Port>>(); }

void Port::end() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = false;
  }
  for (const std::shared_ptr<Use>& use : uses_) releaseEngine(use->end());
  uses_.clear();
  kept_.clear();
}

uint64_t Port::keep(Napi::Function function) {
  const uint64_t id = newId();
  kept_[id] = Napi::Persistent(function);
  return id;
}

void Port::call(uint64_t kept, std::function<Napi::Value(Napi::Env)> argument) {
  post([port = shared_from_this(), kept, argument = std::move(argument)](Napi::Env env) {
    const auto found = port->kept_.find(kept);
    if (found == port->kept_.end()) return;
    const Napi::HandleScope scope(env);
    found->second.Call({argument(env)});
  });
}

void Port::post(std::function<void(Napi::Env)> task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!open_) return;
  using Task = std::function<void(Napi::Env)>;
  auto* const held = new Task(std::move(task));
  const auto run = [](Napi::Env env, Napi::Function, Task* posted) {
    const std::unique_ptr<Task> owned(posted);
    if (env == nullptr) return;  // the queue is only being emptied
    try {
      (*owned)(env);
    } catch (const Napi::Error&) {
      // The worker is being terminated: it cannot run JavaScript, and no receiver is left.
    }
  };
  if (function_.NonBlockingCall(held, run) != napi_ok) delete held;
}

std::pair<Napi::Promise, Port::Settle> Port::promise(Napi::Env env) {
  const auto deferred = std::make_shared<Napi::Promise::Deferred>(Napi::Promise::Deferred::New(env));
  if (pending_++ == 0) function_.Ref(env);
  auto settle = [port = shared_from_this(), deferred](Outcome outcome) {
    port->post([port, deferred, outcome = std::move(outcome)](Napi::Env env) {
      if (--port->pending_ == 0) port->function_.Unref(env);
      outcome(env, *deferred);
    });
  };
  return {deferred->Promise(), std::move(settle)};
}

}  // namespace hone
