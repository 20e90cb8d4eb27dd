// The first use of a GPU's kernel compiles it, where the library has no machine code for that GPU: CUDA's driver for
// cards that it has only PTX for, Vulkan's for all. That takes up to minutes, which must not count in a turn's
// deadline.
#pragma once

#include "decoder.h"

namespace hone {

struct WarmUpShape {
  int slots;
  /** Maximum number of tokens of a slot. */
  int contextPerSlot;
  /** Tokens of a prompt that are evaluated in one pass. */
  int prompt;
  /** Maximum number of rows of logits of one batch. */
  int outputs;
};

/**
 * Evaluates batches of the shapes that rollouts have: prompts, long with many rows of logits and short, copies of their
 * KV, and one token in all slots, in a few and in one. Kernels differ by the number of tokens. All slots are empty
 * afterwards, also after an exception, unless `clear` throws.
 */
void evaluateShapes(Decoder& decoder, const WarmUpShape& shape);

}  // namespace hone
