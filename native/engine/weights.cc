#include "weights.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "model.h"

namespace hone {

void ModelRelease::operator()(llama_model*) const { weights->release(); }

void AdapterRelease::operator()(llama_adapter_lora*) const { weights->releaseAdapter(path); }

HeldModel Weights::acquire() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (model_.holders == 0) {
    model_.object = loadModel(file_, false, useGpu_);
    bytes_ = libLlama()->llama_model_size(model_.object);
  }
  model_.holders++;
  return HeldModel(model_.object, {shared_from_this()});
}

void Weights::release() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--model_.holders > 0) return;
  libLlama()->llama_model_free(model_.object);
  bytes_ = 0;
}

HeldAdapter Weights::acquireAdapter(const std::string& path) {
  AdapterRelease release{shared_from_this(), path};
  std::lock_guard<std::mutex> lock(mutex_);
  Shared<llama_adapter_lora>& adapter = adapters_[path];
  if (adapter.holders == 0) {
    forgetLlamaErrors();
    adapter.object = libLlama()->llama_adapter_lora_init(model_.object, path.c_str());
    if (!adapter.object) {
      adapters_.erase(path);
      throwLlamaError(refusal(path));
    }
  }
  adapter.holders++;
  return HeldAdapter(adapter.object, std::move(release));
}

void Weights::checkAdapter(const std::string& path) const {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error(refusal(path) + ": " + std::strerror(errno));
  char magic[4] = {};
  const size_t read = std::fread(magic, 1, sizeof magic, file);
  std::fclose(file);
  if (read != sizeof magic || std::memcmp(magic, "GGUF", sizeof magic) != 0) {
    throw std::runtime_error(refusal(path) + ": it is no GGUF file");
  }
}

std::string Weights::refusal(const std::string& path) const {
  return "the adapter " + path + " cannot be put on " + file_;
}

void Weights::releaseAdapter(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = adapters_.find(path);
  if (--found->second.holders > 0) return;
  libLlama()->llama_adapter_lora_free(found->second.object);
  adapters_.erase(found);
}

}  // namespace hone
