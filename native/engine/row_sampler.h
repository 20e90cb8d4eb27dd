// Draws the tokens after the rows of a batch, or scores given ones: by threads of the host, or, where the decoder can,
// where the logits are. A batch is drawn there whole or not at all: llama.cpp copies the logits of all rows of a pass,
// or of none.
#pragma once

#include <cstddef>
#include <vector>

#include "decoder.h"
#include "pool.h"
#include "sampling.h"
#include "sequence.h"

namespace hone {

class RowSampler {
 public:
  explicit RowSampler(int threads) : pool_(threads), samplers_(pool_.threads()) {}

  /** Decides where a batch is drawn, before it is decoded. `rows` are those whose logits are read. */
  void prepare(const Decoder& decoder, Batch& batch, const std::vector<LogitRow>& rows);
  /** Draws for all rows of the decoded batch. Returns the number of tokens that were drawn where the logits are. */
  size_t draw(const Decoder& decoder, const Batch& batch, std::vector<LogitRow>& rows);

 private:
  bool onDevice(const Decoder& decoder, const Batch& batch, const std::vector<LogitRow>& rows);
  static void sample(const Decoder& decoder, LogitRow& row, Sampler& sampler);

  Pool pool_;
  std::vector<Sampler> samplers_;
  /** So many batches are still sampled by the host. */
  int hostBatches_ = 0;
};

}  // namespace hone
