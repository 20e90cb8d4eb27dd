#include "warm_up.h"

#include <algorithm>

namespace hone {
namespace {

/** A token id that every vocabulary has. */
constexpr Token kToken = 0;
/** Tokens of the prompts beside the longest: Vulkan's tiles are for at most 32 rows, at most 64, and more. */
constexpr int kShort = 16;
constexpr int kMiddle = 64;
/** Up to this many rows each number has kernels of its own: matrices are multiplied by vectors. */
constexpr int kVectorRows = 8;

/** Rows of several tokens of a slot are those of a score, whose logits are read. */
void evaluate(Decoder& decoder, Batch& batch, bool score) {
  if (decoder.samples() && !score) batch.draws.resize(batch.tokens.size());
  decoder.decode(batch);
}

/** A prompt in the first slot, which is empty; logits for the last `wanted` tokens. */
void evaluatePrompt(Decoder& decoder, int tokens, int wanted) {
  Batch batch;
  for (int i = 0; i < tokens; i++) batch.add(kToken, i, 0, i >= tokens - wanted);
  evaluate(decoder, batch, wanted > 1);
}

/** One token in each of the first slots, which all have `length` cells. */
void evaluateStep(Decoder& decoder, int slots, int length) {
  Batch batch;
  for (int slot = 0; slot < slots; slot++) batch.add(kToken, length, slot, true);
  evaluate(decoder, batch, false);
}

void evaluateAll(Decoder& decoder, const WarmUpShape& shape) {
  const int most = std::min(shape.prompt, shape.contextPerSlot);
  decoder.clear();
  evaluatePrompt(decoder, most, std::min(most, shape.outputs));
  for (const int tokens : {kMiddle, kShort}) {
    decoder.clear();
    evaluatePrompt(decoder, std::min(tokens, most), 1);
  }
  // Members of a group begin as copies of the first's prompt, and end one by one.
  for (int slot = 1; slot < shape.slots; slot++) decoder.copy(0, slot);
  int length = std::min(kShort, most);
  for (int slots = shape.slots; slots >= 1 && length < shape.contextPerSlot; length++) {
    evaluateStep(decoder, slots, length);
    slots = std::min(slots - 1, kVectorRows);
  }
}

}  // namespace

void evaluateShapes(Decoder& decoder, const WarmUpShape& shape) {
  try {
    evaluateAll(decoder, shape);
  } catch (...) {
    decoder.clear();
    throw;
  }
  decoder.clear();
}

}  // namespace hone
