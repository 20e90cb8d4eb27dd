// The padded sizes of batches.
#pragma once

namespace hone {

/** The next power of two; beyond 16 rows the next multiple of 16, beyond 64 of 32. */
int shapeOf(int rows);

/** A size that grows at once and shrinks when a smaller one has sufficed for long: sequences come and go. */
class HeldShape {
 public:
  int of(int rows) { return of(rows, rows); }
  /** The shape of `rows`, or a larger one from before, until that of `least`, at most `rows`, has sufficed for long. */
  int of(int rows, int least);

 private:
  int held_ = 0;
  /** Number of consecutive batches that needed less. */
  int less_ = 0;
};

}  // namespace hone
