#include "shape.h"

namespace hone {
namespace {

/** Number of smaller batches before the shape shrinks. */
constexpr int kPatience = 32;

/** Beyond this many rows shapes are multiples of `kStep`: a power of two would be up to twice the work. */
constexpr int kDoubled = 512;
constexpr int kStep = 256;

}  // namespace

int shapeOf(int rows) {
  if (rows > kDoubled) return (rows + kStep - 1) / kStep * kStep;
  int shape = 1;
  while (shape < rows) shape *= 2;
  return shape;
}

int HeldShape::of(int rows) {
  const int shape = shapeOf(rows);
  less_ = shape < held_ ? less_ + 1 : 0;
  if (shape >= held_ || less_ > kPatience) {
    held_ = shape;
    less_ = 0;
  }
  return held_;
}

}  // namespace hone
