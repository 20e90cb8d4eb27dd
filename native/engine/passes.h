// How llama.cpp cuts a batch into passes over the weights (`llama_batch_allocr`). Knows nothing else of llama.cpp.
#pragma once

#include "decoder.h"

namespace hone {

/**
 * Passes that a batch takes, each of `ubatch` tokens at most. Where the KV is pooled, tokens of any slots share a pass.
 * Otherwise a pass takes as many tokens of each of some neighbouring slots: the longest run of neighbours from the first
 * slot that has tokens left, and of each as many as the one with the fewest has left.
 */
int passesOf(const Batch& batch, int ubatch, bool pooled);

}  // namespace hone
