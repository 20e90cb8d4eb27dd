// Loops over a whole vocabulary, written so that compilers vectorise them.
#pragma once

#include <cstddef>

namespace hone {

/**
 * Elements whose exponentials are summed in single precision, in 32 sums of 64 each, so that the relative rounding
 * error is at most 64 · 2^-24 whatever the vocabulary. Chunks are summed in double precision.
 */
constexpr int kChunk = 2048;

/** The largest of n ≥ 1 floats. Ignores NaNs. */
float maximum(const float* x, int n);

/** Σ exp((x[i] - offset) · scale), every exponent being at most 0. NaN when an element is. */
double sumOfExponentials(const float* x, int n, float offset, float scale);

/** Σ exp(y), Σ exp(y) · y and Σ exp(y) · y². */
struct Moments {
  double sum = 0;
  double first = 0;
  double second = 0;
};

/** Of y = (x[i] - offset) · scale, every y being at most 0. NaN when an element is. */
Moments momentsOfExponentials(const float* x, int n, float offset, float scale);

/** exp(x) for x ≤ 0 with a relative error of about 1e-7; 0 below -87. */
float exponential(float x);

}  // namespace hone
