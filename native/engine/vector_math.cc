#include "vector_math.h"

#include <cstdint>
#include <cstring>
#include <limits>

// One binary must run on any x86-64 and use the wide registers of the machine. Sanitizers cannot start a program that
// chooses its functions at load time.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

#ifdef _MSC_VER
#define ALWAYS_INLINE __forceinline
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

namespace hone {
namespace {

/** Independent accumulators: floating-point addition is not associative, so compilers do not split a sum themselves. */
constexpr int kLanes = 32;

// exp(x) = 2^n · exp(r), n = round(x / ln 2), with a polynomial for exp(r) (Cephes expf).
ALWAYS_INLINE float expOf(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = clamped * 1.44269504088896341f + 12582912.0f;  // 1.5 · 2^23: the sum is rounded to whole numbers
  const float n = shifted - 12582912.0f;
  const float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

}  // namespace

float exponential(float x) { return expOf(x); }

WIDE float maximum(const float* x, int n) {
  float lanes[kLanes];
  for (int j = 0; j < kLanes; j++) lanes[j] = -std::numeric_limits<float>::infinity();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (; i < n; i++) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  float best = lanes[0];
  for (int j = 1; j < kLanes; j++) best = lanes[j] > best ? lanes[j] : best;
  return best;
}

WIDE double sumOfExponentials(const float* x, int n, float offset, float scale) {
  double sum = 0;
  for (int begin = 0; begin < n; begin += kChunk) {
    const int end = n - begin < kChunk ? n : begin + kChunk;
    float lanes[kLanes] = {};
    int i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int j = 0; j < kLanes; j++) lanes[j] += expOf((x[i + j] - offset) * scale);
    }
    for (; i < end; i++) lanes[(i - begin) % kLanes] += expOf((x[i] - offset) * scale);
    for (int j = 0; j < kLanes; j++) sum += lanes[j];
  }
  return sum;
}

WIDE Moments momentsOfExponentials(const float* x, int n, float offset, float scale) {
  Moments moments;
  for (int begin = 0; begin < n; begin += kChunk) {
    const int end = n - begin < kChunk ? n : begin + kChunk;
    float sum[kLanes] = {};
    float first[kLanes] = {};
    float second[kLanes] = {};
    const auto add = [&](int i, int j) {
      const float y = (x[i] - offset) * scale;
      const float e = expOf(y);
      // Below that exp is 0, and 0 · ∞ would be NaN.
      const float bounded = y < -87.0f ? -87.0f : y;
      sum[j] += e;
      first[j] += e * bounded;
      second[j] += e * bounded * bounded;
    };
    int i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int j = 0; j < kLanes; j++) add(i + j, j);
    }
    for (; i < end; i++) add(i, (i - begin) % kLanes);
    for (int j = 0; j < kLanes; j++) {
      moments.sum += sum[j];
      moments.first += first[j];
      moments.second += second[j];
    }
  }
  return moments;
}

}  // namespace hone
