// The sizes that batches of one shape have.
#pragma once

namespace hone {

/** The next power of two. */
int shapeOf(int rows);

/** A size that grows at once and shrinks when the smaller one has long been enough: sequences come and go. */
class HeldShape {
 public:
  int of(int rows);

 private:
  int held_ = 0;
  /** Batches in a row that needed less. */
  int less_ = 0;
};

}  // namespace hone
