#include "warm_up.h"

#include <algorithm>

namespace hone {
namespace {

/** Every vocabulary has it. */
constexpr Token kToken = 0;
/** The tokens of a short answer of a tool. */
constexpr int kResponse = 16;

/** A prompt in the first slot, which is empty; the last `wanted` tokens with logits. */
void evaluatePrompt(Decoder& decoder, int tokens, int wanted) {
  Batch batch;
  for (int i = 0; i < tokens; i++) batch.add(kToken, i, 0, i >= tokens - wanted);
  decoder.decode(batch);
}

/** One token in each of the first slots, which all have `length` cells. */
void evaluateStep(Decoder& decoder, int slots, int length) {
  Batch batch;
  for (int slot = 0; slot < slots; slot++) batch.add(kToken, length, slot, true);
  decoder.decode(batch);
}

void evaluateAll(Decoder& decoder, const WarmUpShape& shape) {
  const int most = std::min(shape.prompt, shape.contextPerSlot);
  decoder.clear();
  evaluatePrompt(decoder, most, std::min(most, shape.outputs));
  decoder.clear();
  // Members of a group begin as copies of the first's prompt.
  const int length = std::min(kResponse, most);
  evaluatePrompt(decoder, length, 1);
  if (length == shape.contextPerSlot) return;
  for (int slot = 1; slot < shape.slots; slot++) decoder.copy(0, slot);
  evaluateStep(decoder, shape.slots, length);
  if (shape.slots == 1 || length + 1 == shape.contextPerSlot) return;
  evaluateStep(decoder, 1, length + 1);
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
