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
    LlamaReport loaded;
    const Listening listening(loaded);
    model_.object = loadModel(file_, false, useGpu_, repacked_);
    model_.buffers = loaded.buffers;
    noteBuffers(&loaded);
    bytes_ = libLlama()->llama_model_size(model_.object);
  }
  model_.holders++;
  return HeldModel(model_.object, {shared_from_this()});
}

void Weights::release() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--model_.holders > 0) return;
  libLlama()->llama_model_free(model_.object);
  model_.buffers.clear();
  noteBuffers(nullptr);
  bytes_ = 0;
}

HeldAdapter Weights::acquireAdapter(const std::string& path) {
  AdapterRelease release{shared_from_this(), path};
  std::lock_guard<std::mutex> lock(mutex_);
  Shared<llama_adapter_lora>& adapter = adapters_[path];
  if (adapter.holders == 0) {
    LlamaReport loaded;
    const Listening listening(loaded);
    forgetLlamaErrors();
    adapter.object = libLlama()->llama_adapter_lora_init(model_.object, path.c_str());
    if (!adapter.object) {
      adapters_.erase(path);
      throwLlamaError(refusal(path));
    }
    adapter.buffers = loaded.buffers;
    noteBuffers(nullptr);
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
  noteBuffers(nullptr);
}

/**
 * Sums up the buffers of the model and of all adapters. `loaded` is that of a model that has just been loaded, else
 * null.
 */
void Weights::noteBuffers(const LlamaReport* loaded) {
  std::lock_guard<std::mutex> lock(reportMutex_);
  if (loaded) report_ = *loaded;
  report_.buffers = model_.buffers;
  for (const auto& [path, adapter] : adapters_) addBuffers(report_.buffers, adapter.buffers);
}

LlamaReport Weights::report() const {
  std::lock_guard<std::mutex> lock(reportMutex_);
  return report_;
}

}  // namespace hone
