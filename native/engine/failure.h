// What went wrong, in words for the user, and whether it was memory that was lacking: callers can go on with less then.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace hone {

/** There is no memory left, of the process or of the device. */
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** Whether a message of llama.cpp, of a driver or of the system says that memory is lacking. Does not throw. */
bool saysOutOfMemory(const char* message) noexcept;

struct Failure {
  Failure() = default;
  Failure(std::string said, bool lacking = false) : message(std::move(said)), memory(lacking) {}
  Failure(const char* said) : message(said) {}
  explicit Failure(const std::exception& exception);

  bool empty() const { return message.empty(); }

  /** "" for no failure. */
  std::string message;
  /** Memory was lacking. */
  bool memory = false;
};

}  // namespace hone
