// Values that cross between JavaScript and C++.
#pragma once

#include <napi.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "decoder.h"
#include "sampling.h"

namespace hone {

inline std::vector<Token> tokensOf(const Napi::Value& value) {
  const auto array = value.As<Napi::Int32Array>();
  return std::vector<Token>(array.Data(), array.Data() + array.ElementLength());
}

template <typename Array, typename T>
Array arrayOf(Napi::Env env, const std::vector<T>& values) {
  const Array array = Array::New(env, values.size());
  std::copy(values.begin(), values.end(), const_cast<Array&>(array).Data());
  return array;
}

inline double numberOf(const Napi::Object& object, const char* key) {
  return object.Get(key).As<Napi::Number>().DoubleValue();
}

inline int wholeOf(const Napi::Object& object, const char* key) { return static_cast<int>(numberOf(object, key)); }

inline SamplingParams samplingOf(const Napi::Object& object) {
  SamplingParams params;
  params.temperature = static_cast<float>(numberOf(object, "temperature"));
  params.topK = wholeOf(object, "topK");
  params.topP = static_cast<float>(numberOf(object, "topP"));
  params.minP = static_cast<float>(numberOf(object, "minP"));
  params.seed = static_cast<uint64_t>(numberOf(object, "seed"));
  return params;
}

inline Napi::Value errorOf(Napi::Env env, const std::string& message) {
  return Napi::Error::New(env, message).Value();
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
