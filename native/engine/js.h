// Values passed between JavaScript and C++. All arguments are checked here: llama.cpp and the scheduler do not check
// theirs, and wrong ones would make them read out of bounds.
#pragma once

#include <napi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "decoder.h"
#include "failure.h"
#include "sampling.h"

namespace hone {

/** The kind of a value, for messages: "an Int16Array", "undefined". */
std::string kindOf(const Napi::Value& value);

/** Napi::TypeError: `name` must be `wanted`, and has another type. */
[[noreturn]] void refuseKind(const Napi::Value& value, const std::string& name, const char* wanted);
/** Napi::RangeError with the line. */
[[noreturn]] void refuseRange(Napi::Env env, const std::string& line);

/** As `DrawStatistics` in src/core/engine/sequence.ts. */
Napi::Object drawsObject(Napi::Env env, const Draws& draws);

// Each throws a Napi::TypeError for a value of another type and a Napi::RangeError for one out of range. Nothing is
// converted: that could run the caller's code in the middle of a call.

Napi::Object objectOf(const Napi::Value& value, const std::string& name);
bool flagOf(const Napi::Value& value, const std::string& name);
/** Refuses NUL, which would truncate a file's name. */
std::string pathOf(const Napi::Value& value, const std::string& name);
std::string textOf(const Napi::Value& value, const std::string& name);
/** In [least, most]. */
double numberOf(const Napi::Value& value, const std::string& name, double least, double most);
/** In [least, most], without a fraction. */
double wholeNumberOf(const Napi::Value& value, const std::string& name, double least, double most);

inline int wholeOf(const Napi::Value& value, const std::string& name, int least,
                   int most = std::numeric_limits<int>::max()) {
  return static_cast<int>(wholeNumberOf(value, name, least, most));
}

/** The largest number up to which all integers are exact. */
constexpr double kSafeInteger = 9007199254740991.0;

/** The id of a sequence or a turn. */
inline uint64_t idOf(const Napi::Value& value, const std::string& name) {
  return static_cast<uint64_t>(wholeNumberOf(value, name, 0, kSafeInteger));
}

/** A copy of an Int32Array: the caller, or a thread that shares its memory, may change it at any time. */
std::vector<Token> tokensOf(const Napi::Value& value, const std::string& name);
/** A copy of a Float32Array. */
std::vector<float> floatsOf(const Napi::Value& value, const std::string& name);

/** @throws Napi::RangeError for an id that is not in the vocabulary of `size` entries */
void checkTokens(Napi::Env env, const std::vector<Token>& tokens, const std::string& name, int size);

SamplingParams samplingOf(const Napi::Object& object);

template <typename Array, typename T>
Array arrayOf(Napi::Env env, const std::vector<T>& values) {
  const Array array = Array::New(env, values.size());
  std::copy(values.begin(), values.end(), const_cast<Array&>(array).Data());
  return array;
}

/** Its `code` is "memory" for a lack of memory. */
inline Napi::Value errorOf(Napi::Env env, const Failure& failure) {
  Napi::Object error = Napi::Error::New(env, failure.message).Value();
  if (failure.memory) error.Set("code", "memory");
  return error;
}

/** Adds a function to an object; a C++ exception becomes a JavaScript one. */
template <typename F>
void define(Napi::Object object, const char* name, F function) {
  const auto wrapped = [function](const Napi::CallbackInfo& info) -> Napi::Value {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<F, const Napi::CallbackInfo&>>) {
        function(info);
        return info.Env().Undefined();
      } else {
        return function(info);
      }
    } catch (const Napi::Error&) {
      throw;
    } catch (const std::exception& exception) {
      throw Napi::Error::New(info.Env(), exception.what());
    }
  };
  object.Set(name, Napi::Function::New(object.Env(), wrapped, name));
}

}  // namespace hone
