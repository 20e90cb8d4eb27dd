// Whether a decoder draws the tokens that the host would draw from the same logits.
#pragma once

#include <string>

#include "decoder.h"

namespace hone {

/**
 * Draws a few tokens both ways, with several uniform numbers and temperatures. All slots, of which there are `slots`, are
 * empty before and afterwards. Returns why the decoder's draws cannot be used; "" where they can.
 */
std::string trySampling(Decoder& decoder, int slots);

}  // namespace hone
