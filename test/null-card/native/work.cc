// What llama.cpp's kernels read, by their arguments: bytes of weights in products, and cells of KV in attention. The layout of
// the arguments is that of mmvf.cu, mmf.cuh, convert.cu and fattn-common.cuh of the version that hone has pinned.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include "null_card.h"

namespace null_card {
namespace {

std::atomic<const void*> converted{nullptr};

template <class T> T argument(void** arguments, int number) {
  T value;
  memcpy(&value, arguments[number], sizeof value);
  return value;
}

bool is(const char* name, const char* kernel) { return strstr(name, kernel) != nullptr; }

// mul_mat_vec_f<T, …>(x, y, ids, fusion, dst, pairs of a row's numbers, …), a block for each row. The fused product of the gate
// has the same size.
uint64_t of_vectors(const char* name, const Launch& shape, void** arguments) {
  struct Fusion {
    const void *bias, *gate;
  };
  uint64_t size = is(name, "mul_mat_vec_fIf") ? 4 : 2, matrices = argument<Fusion>(arguments, 3).gate ? 2 : 1;
  return matrices * shape.grid[0] * argument<int>(arguments, 5) * 2 * size;
}

// mul_mat_f<T, rows of a block, …>(x, y, ids, dst, numbers of type T in a row, …); T has four bytes.
uint64_t of_tiles(const char* name, const Launch& shape, void** arguments) {
  const char* rows = strstr(name, "Li");
  return (uint64_t)shape.grid[0] * (rows ? atoi(rows + 2) : 0) * argument<int>(arguments, 4) * 4;
}

// From 16 bits to 32, which are written and read again by the product.
uint64_t of_conversion(const char* name, void** arguments) {
  uint64_t numbers = is(name, "vec4") ? 4 * argument<int64_t>(arguments, 2)
                                      : argument<int64_t>(arguments, 2) * argument<int64_t>(arguments, 3) * argument<int64_t>(arguments, 4);
  converted = argument<const void*>(arguments, 1);
  return numbers * (2 + 4);
}

} // namespace

Work work_of(const char* name, const Launch& shape, void** arguments) {
  Work work;
  if (!arguments) return work;
  if (is(name, "flash_attn_ext_f16I") || is(name, "flash_attn_ext_vecI") || is(name, "flash_attn_tileI")) {
    struct Divisor {
      unsigned by[3];
    };
    uint64_t rows = argument<Divisor>(arguments, 15).by[2], sequences = argument<int>(arguments, 17);
    uint64_t cells = argument<int>(arguments, 22), buffers = argument<int>(arguments, 24);
    work.attended = rows * sequences * cells;
    work.cells = buffers * cells;
    work.attentions = 1;
    return work;
  }
  bool vectors = is(name, "mul_mat_vec_fI"), tiles = is(name, "mul_mat_fI"), conversion = is(name, "convert_unary");
  if (!(vectors || tiles || conversion) || !holds_weights(argument<const void*>(arguments, 0))) return work;
  work.weights = vectors ? of_vectors(name, shape, arguments)
                 : tiles ? of_tiles(name, shape, arguments)
                         : of_conversion(name, arguments);
  return work;
}

Work work_of_product(const void* left, uint64_t bytes) {
  Work work;
  if (left == converted.load() || holds_weights(left)) work.weights = bytes;
  return work;
}

void count(const Work& work) {
  if (work.weights) count("weights read bytes", work.weights);
  if (!work.attentions) return;
  count("attended cells", work.attended);
  count("cells read", work.cells);
  count("attentions", work.attentions);
}

} // namespace null_card
