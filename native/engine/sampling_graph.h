// The operations that draw a token from each row of logits on the device that has the logits.
#pragma once

#include <cstdint>

#include "decoder.h"
#include "ggml-backend.h"

namespace hone {

/** Numbers of a row of `SamplingGraph::drawn`. */
constexpr int kDrawnNumbers = 3;

/** All tensors are f32, for N rows. */
struct SamplingGraph {
  /**
   * Input, [N, 2]: uniform numbers in [0, 1], see `uniformInput`, and then 1 / temperature of each row. One tensor, since the host
   * waits twice for the copy of each (ggml_backend_sched_compute_splits, ggml_backend_tensor_copy).
   */
  ggml_tensor* asked = nullptr;
  /** Output, [kDrawnNumbers, N]: read by `drawnFrom`. */
  ggml_tensor* drawn = nullptr;
  int rows = 0;
};

/**
 * Adds the operations for logits [vocabulary, N], whose rows are contiguous. A token is found by inversion in two levels: first
 * the block of the vocabulary where the running sum of probabilities passes the uniform number, then the token within
 * it. A running sum over the whole vocabulary would be off by the rounding of so many additions in f32.
 *
 * @param asked the input where it is there already; else it is made
 */
SamplingGraph buildSampling(ggml_context* context, ggml_tensor* logits, ggml_tensor* asked = nullptr);

/** Number of tokens of a block. */
int blockOf(int64_t vocabulary);

/** A uniform number in [0, 1) as the graph takes it. */
float uniformInput(double uniform);

/** The token in a row of `drawn`; -1 where the logits were not finite. */
Drawn drawnFrom(const float* row, int64_t vocabulary);

/** The first operation that a device lacks for this vocabulary, as ggml names it; null for none. */
const char* missingForSampling(ggml_backend_dev_t device, int64_t vocabulary);

}  // namespace hone
