// The first use of a GPU's kernel compiles it, where the library holds no machine code for that GPU: CUDA's driver does
// so for cards that it has only PTX for, Vulkan's for all. That takes up to minutes, which no turn's deadline may pay.
#pragma once

#include "decoder.h"

namespace hone {

struct WarmUpShape {
  int slots;
  /** Tokens of a slot at most. */
  int contextPerSlot;
  /** Tokens of a prompt that are evaluated in one pass. */
  int prompt;
  /** Rows of logits of one batch at most. */
  int outputs;
};

/**
 * Evaluates batches of the shapes that rollouts have: prompts, long with many rows of logits and short, copies of their
 * KV, and one token in all slots, in a few and in one. Kernels differ by the number of tokens. All slots are empty
 * afterwards, also when it throws, unless `clear` does.
 */
void evaluateShapes(Decoder& decoder, const WarmUpShape& shape);

}  // namespace hone
