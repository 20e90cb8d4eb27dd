// The decoder for llama.cpp: drawing tokens where the logits are.
#include "llama_decoder.h"
#include "sampling_trial.h"

namespace hone {

/** Before the context, which then begins with samplers; where that cannot be, `whyHost` says why. */
void LlamaDecoder::prepareDrawing() {
  ggml_backend_dev_t device =
      lib_.ggml_backend_dev_by_type(settings_.useGpu ? GGML_BACKEND_DEVICE_TYPE_GPU : GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!device && settings_.useGpu) device = lib_.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU);
  // A batch draws at most one token of each sequence, and at most as many rows with padding.
  if (settings_.sequences > mostRows(vocabularySize_)) {
    whyHost_ = "the vocabulary of " + std::to_string(vocabularySize_) + " tokens is too small for " +
               std::to_string(settings_.sequences) + " rows";
    return;
  }
  const char* missing = device ? missingForSampling(device, vocabularySize_) : nullptr;
  if (!device || missing) {
    whyHost_ = device ? std::string("the device lacks the operation ") + missing : "llama.cpp names no device";
    return;
  }
  device_ = std::make_unique<DeviceSampler>(vocabularySize_);
}

/** Where the device does not draw what the host would, the host samples. */
void LlamaDecoder::tryDrawing() {
  whyHost_ = trySampling(*this, sequences_);
  if (whyHost_.empty()) return;
  drawOnDevice(false);
  device_.reset();
}

/** Gives the context its samplers, or takes them. llama.cpp then plans its graphs again, as after an adapter's change. */
void LlamaDecoder::drawOnDevice(bool device) {
  if (device == drawing_) return;
  if (device) device_->renew(static_cast<int>(lib_.llama_n_seq_max(context_.get())));
  for (const llama_sampler_seq_config& config : device_->samplers()) {
    lib_.llama_set_sampler(context_.get(), config.seq_id, device ? config.sampler : nullptr);
  }
  drawing_ = device;
}

void LlamaDecoder::takeDrawn() {
  device_->collect(context_.get());
  copiedBytes_ = device_->copiedBytes();
}

}  // namespace hone
