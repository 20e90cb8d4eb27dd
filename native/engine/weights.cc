#include "weights.h"

#include <stdexcept>

#include "model.h"

namespace hone {

llama_model* Weights::acquire() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (model_.holders == 0) {
    model_.object = loadModel(file_, false, useGpu_);
    bytes_ = libLlama()->llama_model_size(model_.object);
  }
  model_.holders++;
  return model_.object;
}

void Weights::release() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--model_.holders > 0) return;
  libLlama()->llama_model_free(model_.object);
  bytes_ = 0;
}

llama_adapter_lora* Weights::acquireAdapter(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = adapters_.find(path);
  if (found != adapters_.end()) {
    found->second.holders++;
    return found->second.object;
  }
  takeLlamaComplaints();
  llama_adapter_lora* const adapter = libLlama()->llama_adapter_lora_init(model_.object, path.c_str());
  if (!adapter) {
    throw std::runtime_error("the adapter " + path + " cannot be put on " + file_ + ": " + llamaReason());
  }
  adapters_[path] = {adapter, 1};
  return adapter;
}

void Weights::releaseAdapter(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = adapters_.find(path);
  if (--found->second.holders > 0) return;
  libLlama()->llama_adapter_lora_free(found->second.object);
  adapters_.erase(found);
}

}  // namespace hone
