#include "js.h"

namespace hone {
namespace {

/** Identifies the array by its element type: a class name read from its prototype may have been changed. */
const char* elementsOf(const Napi::TypedArray& array) {
  switch (array.TypedArrayType()) {
    case napi_int8_array:
      return "an Int8Array";
    case napi_uint8_array:
      return "a Uint8Array";
    case napi_uint8_clamped_array:
      return "a Uint8ClampedArray";
    case napi_int16_array:
      return "an Int16Array";
    case napi_uint16_array:
      return "a Uint16Array";
    case napi_int32_array:
      return "an Int32Array";
    case napi_uint32_array:
      return "a Uint32Array";
    case napi_float32_array:
      return "a Float32Array";
    case napi_float64_array:
      return "a Float64Array";
    case napi_bigint64_array:
      return "a BigInt64Array";
    case napi_biguint64_array:
      return "a BigUint64Array";
    default:
      return "a typed array";
  }
}

/** A number as JavaScript writes it: 4, 1.5, NaN. */
std::string written(const Napi::Value& number) { return number.ToString(); }

template <typename Array, typename T>
std::vector<T> copied(const Napi::Value& value, const std::string& name, napi_typedarray_type type, const char* wanted) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != type) refuseKind(value, name, wanted);
  const auto array = value.As<Array>();
  if (array.ArrayBuffer().IsDetached()) {
    throw Napi::TypeError::New(value.Env(), name + " is empty: its buffer was detached (moved to another thread)");
  }
  const size_t length = array.ElementLength();
  // The address of an empty array may be null.
  return length == 0 ? std::vector<T>() : std::vector<T>(array.Data(), array.Data() + length);
}

}  // namespace

std::string kindOf(const Napi::Value& value) {
  switch (value.Type()) {
    case napi_undefined:
      return "undefined";
    case napi_null:
      return "null";
    case napi_boolean:
      return "a boolean";
    case napi_number:
      return "a number";
    case napi_string:
      return "a string";
    case napi_symbol:
      return "a symbol";
    case napi_function:
      return "a function";
    case napi_bigint:
      return "a bigint";
    default:
      if (value.IsTypedArray()) return elementsOf(value.As<Napi::TypedArray>());
      return value.IsArray() ? "an array" : "an object";
  }
}

void refuseKind(const Napi::Value& value, const std::string& name, const char* wanted) {
  throw Napi::TypeError::New(value.Env(), name + " must be " + wanted + ", not " + kindOf(value));
}

void refuseRange(Napi::Env env, const std::string& line) { throw Napi::RangeError::New(env, line); }

Napi::Object objectOf(const Napi::Value& value, const std::string& name) {
  if (value.Type() != napi_object) refuseKind(value, name, "an object");
  return value.As<Napi::Object>();
}

bool flagOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsBoolean()) refuseKind(value, name, "a boolean");
  return value.As<Napi::Boolean>();
}

std::string textOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsString()) refuseKind(value, name, "a string");
  return value.As<Napi::String>();
}

std::string pathOf(const Napi::Value& value, const std::string& name) {
  const std::string path = textOf(value, name);
  if (path.find('\0') != std::string::npos) refuseRange(value.Env(), name + " holds a NUL: it is not the name of a file");
  return path;
}

double numberOf(const Napi::Value& value, const std::string& name, double least, double most) {
  if (!value.IsNumber()) refuseKind(value, name, "a number");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (number >= least && number <= most) return number;  // NaN is not
  const auto limit = [&](double bound) { return written(Napi::Number::New(value.Env(), bound)); };
  refuseRange(value.Env(), name + " is " + written(value) + "; it must be from " + limit(least) + " to " + limit(most));
}

double wholeNumberOf(const Napi::Value& value, const std::string& name, double least, double most) {
  const double number = numberOf(value, name, least, most);
  if (number != std::floor(number)) refuseRange(value.Env(), name + " is " + written(value) + "; it must be a whole number");
  return number;
}

std::vector<Token> tokensOf(const Napi::Value& value, const std::string& name) {
  return copied<Napi::Int32Array, Token>(value, name, napi_int32_array, "an Int32Array");
}

std::vector<float> floatsOf(const Napi::Value& value, const std::string& name) {
  return copied<Napi::Float32Array, float>(value, name, napi_float32_array, "a Float32Array");
}

void checkTokens(Napi::Env env, const std::vector<Token>& tokens, const std::string& name, int size) {
  for (const Token token : tokens) {
    if (token >= 0 && token < size) continue;
    refuseRange(env, "token " + std::to_string(token) + " of " + name + " does not exist; the vocabulary has " +
                         std::to_string(size) + " tokens");
  }
}

SamplingParams samplingOf(const Napi::Object& object) {
  SamplingParams params;
  const double largest = std::numeric_limits<float>::max();
  params.temperature = static_cast<float>(numberOf(object.Get("temperature"), "temperature", 0, largest));
  params.topK = wholeOf(object.Get("topK"), "topK", 0);
  params.topP = static_cast<float>(numberOf(object.Get("topP"), "topP", 0, 1));
  params.minP = static_cast<float>(numberOf(object.Get("minP"), "minP", 0, 1));
  params.seed = static_cast<uint64_t>(wholeNumberOf(object.Get("seed"), "seed", 0, kSafeInteger));
  return params;
}

Napi::Object drawsObject(Napi::Env env, const Draws& draws) {
  auto object = Napi::Object::New(env);
  object.Set("tokens", static_cast<double>(draws.tokens));
  object.Set("deviation", draws.deviation);
  object.Set("variance", draws.variance);
  return object;
}

}  // namespace hone
