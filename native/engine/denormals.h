// Numbers below 1.2e-38 (denormals) cost x86 processors a hundred cycles each, and sharp attention has many: the
// near-zero values of its softmax. Other processors compute them at full speed.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace hone {

/** While it exists, denormals are treated as zero on this thread, and on threads that it starts. */
class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__x86_64__) || defined(_M_X64)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kFlushInputs); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushResults = 0x8000, kFlushInputs = 0x0040;
  const unsigned before_;
#else
  FlushDenormals() = default;
#endif
};

}  // namespace hone
