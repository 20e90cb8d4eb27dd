// An error message for the user, and whether the cause was a lack of memory: callers can then continue with less.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace hone {

/** Out of memory, in the process or on the device. */
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** Whether a message of llama.cpp, of a driver or of the system reports a lack of memory. Does not throw. */
bool saysOutOfMemory(const char* message) noexcept;

struct Failure {
  Failure() = default;
  Failure(std::string said, bool lacking = false) : message(std::move(said)), memory(lacking) {}
  Failure(const char* said) : message(said) {}
  explicit Failure(const std::exception& exception);

  bool empty() const { return message.empty(); }

  /** "" for no failure. */
  std::string message;
  /** The cause was a lack of memory. */
  bool memory = false;
};

}  // namespace hone
