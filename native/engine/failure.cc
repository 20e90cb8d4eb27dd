#include "failure.h"

#include <cctype>
#include <cstring>

namespace hone {
namespace {

/** Phrases in lower case, of ggml and llama.cpp, of CUDA and Vulkan (also as C++ exceptions), and of the system. */
constexpr const char* kSigns[] = {
    "failed to allocate",   "unable to allocate",    "out of memory",     "insufficient memory",
    "cannot allocate memory", "outofdevicememory", "outofhostmemory", "cudamalloc failed", "bad_alloc",
    "could not reserve space",
};

bool beginsWith(const char* text, const char* lower) {
  for (; *lower; text++, lower++) {
    if (std::tolower(static_cast<unsigned char>(*text)) != *lower) return false;
  }
  return true;
}

}  // namespace

bool saysOutOfMemory(const char* message) noexcept {
  for (; *message; message++) {
    for (const char* sign : kSigns) {
      if (beginsWith(message, sign)) return true;
    }
  }
  return false;
}

Failure::Failure(const std::exception& exception)
    : message(*exception.what() ? exception.what() : "unknown failure"),
      memory(dynamic_cast<const OutOfMemory*>(&exception) || dynamic_cast<const std::bad_alloc*>(&exception) ||
             saysOutOfMemory(exception.what())) {}

}  // namespace hone
