#include "shape.h"

#include <algorithm>

namespace hone {
namespace {

/** Number of smaller batches before the shape shrinks. */
constexpr int kPatience = 64;

/** Up to `kVectors` rows shapes are powers of two, up to `kTiles` multiples of `kTile`, beyond them of `kLarge`. */
constexpr int kVectors = 16;
constexpr int kTile = 16;
constexpr int kTiles = 64;
constexpr int kLarge = 32;

}  // namespace

int shapeOf(int rows) {
  const int step = rows > kTiles ? kLarge : kTile;
  if (rows > kVectors) return (rows + step - 1) / step * step;
  int shape = 1;
  while (shape < rows) shape *= 2;
  return shape;
}

int HeldShape::of(int rows, int least) {
  held_ = std::max(held_, shapeOf(rows));
  less_ = shapeOf(least) < held_ ? less_ + 1 : 0;
  if (less_ > kPatience) {
    held_ = shapeOf(least);
    less_ = 0;
  }
  return held_;
}

}  // namespace hone
