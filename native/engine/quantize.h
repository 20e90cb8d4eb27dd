// Writes a model file with fewer bits a weight, by llama.cpp's own quantisation.
#pragma once

#include <napi.h>

namespace hone {

/**
 * quantize(from, to, type, threads): a promise that is settled when `to` has been written. `type` is "q8_0" or
 * "q4_k_m". llama.cpp must be bound. What it has written of `to` when it fails is left there.
 */
Napi::Value quantize(const Napi::CallbackInfo& info);

}  // namespace hone
