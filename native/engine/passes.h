// How llama.cpp splits a batch into passes over the weights (`llama_batch_allocr`). Independent of llama.cpp.
#pragma once

#include <vector>

#include "decoder.h"

namespace hone {

/**
 * Numbers of tokens of a batch's passes, each of `ubatch` at most. In a pooled KV, tokens of any slots share a pass.
 * Otherwise a pass takes equally many tokens of some neighbouring slots: of the longest run of neighbours from the
 * first slot with tokens left, as many from each as the one with the fewest has left.
 */
std::vector<int> passesOf(const Batch& batch, int ubatch, bool pooled);

}  // namespace hone
