// One JavaScript environment (the main thread's or a worker's): the way back to it from the decode thread, and the
// resources to release when it ends.
//
// Lifetime: held by the environment's instance data and by pending operations. When the environment ends, its cleanup
// hook closes the port first, so that no pending operation reaches into a dead environment.
#pragma once

#include <napi.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "registry.h"

namespace hone {

/** One use of an engine by one environment. Its sequences end with it. On the environment's thread. */
struct Use {
  explicit Use(std::shared_ptr<Engine> used);

  /** Ends the sequences and returns the engine, to be released; null when that was done before. */
  std::shared_ptr<Engine> end();

  std::shared_ptr<Engine> engine;
  const OwnerId owner;
};

class Port : public std::enable_shared_from_this<Port> {
 public:
  /** Must be called once per environment. */
  static void create(Napi::Env env);
  static std::shared_ptr<Port> of(Napi::Env env);

  /** Runs a task on the environment's thread; drops it when the environment has ended. On any thread. */
  void post(std::function<void(Napi::Env)> task);

  /** Resolves or rejects a promise, on the environment's thread. */
  using Outcome = std::function<void(Napi::Env, Napi::Promise::Deferred&)>;
  /** Must be called once, on any thread. */
  using Settle = std::function<void(Outcome)>;
  /** A promise and the function that settles it. Node stays alive until then. */
  std::pair<Napi::Promise, Settle> promise(Napi::Env env);

  /** A function of JavaScript that stays until `forget`, or until the environment ends. On the environment's thread. */
  uint64_t keep(Napi::Function function);
  void forget(uint64_t kept) { kept_.erase(kept); }
  /** Calls it with what `argument` makes; does nothing when it was forgotten. On any thread. */
  void call(uint64_t kept, std::function<Napi::Value(Napi::Env)> argument);

  /** A use that ends with the environment at the latest. On the environment's thread. */
  void hold(const std::shared_ptr<Use>& use) { uses_.insert(use); }
  void drop(const std::shared_ptr<Use>& use) { uses_.erase(use); }

 private:
  explicit Port(Napi::Env env);
  void end();

  std::mutex mutex_;
  bool open_ = true;
  Napi::ThreadSafeFunction function_;
  /** Number of pending promises. On the environment's thread. */
  int pending_ = 0;
  std::set<std::shared_ptr<Use>> uses_;
  std::map<uint64_t, Napi::FunctionReference> kept_;
};

}  // namespace hone
