// How llama.cpp splits a batch into passes over the weights (`llama_batch_allocr`). Independent of llama.cpp.
#pragma once

#include "decoder.h"

namespace hone {

/**
 * Number of passes of a batch, each of `ubatch` tokens at most. In a pooled KV, tokens of any slots share a pass.
 * Otherwise a pass takes equally many tokens of some neighbouring slots: of the longest run of neighbours from the
 * first slot with tokens left, as many from each as the one with the fewest has left.
 */
int passesOf(const Batch& batch, int ubatch, bool pooled);

}  // namespace hone
