// What an engine tells of its decoders, whichever kind they are.
#pragma once

#include <string>

#include "decoder.h"
#include "model.h"
#include "report.h"

namespace hone {

class ModelDecoder : public Decoder {
 public:
  virtual const ModelInfo& info() const = 0;
  /** Bytes; may be called on any thread. */
  virtual uint64_t kvBytes() const = 0;
  virtual uint64_t kvBytesPerSequence() const = 0;
  /** Keys and values have 32 bits. */
  virtual bool fullKv() const = 0;
  /** As SchedulerSettings::pooled. */
  virtual bool pooled() const = 0;
  /** How it was last set up, and its current buffers; may be called on any thread. */
  virtual LlamaReport report() const = 0;
  /** Why it does not draw where the logits are, though it should; "" where it does, or should not. */
  virtual const std::string& whyHost() const = 0;
};

}  // namespace hone
