#include "report.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace hone {
namespace {

thread_local LlamaReport* listening = nullptr;

struct Kind {
  const char* words;
  uint64_t BufferBytes::* bytes;
};

/** "load_tensors:        CUDA0 model buffer size =   942.43 MiB" */
constexpr Kind kKinds[] = {
    {" model buffer size = ", &BufferBytes::weights},   {" LoRA buffer size = ", &BufferBytes::adapters},
    {" KV buffer size = ", &BufferBytes::kv},           {" RS buffer size = ", &BufferBytes::kv},
    {" compute buffer size = ", &BufferBytes::compute}, {" output buffer size = ", &BufferBytes::output},
};

constexpr double kMiB = 1024.0 * 1024.0;

/** The last word before a position. */
std::string wordBefore(const std::string& line, size_t end) {
  const size_t last = line.find_last_not_of(' ', end);
  if (last == std::string::npos) return "";
  const size_t space = line.find_last_of(' ', last);
  return line.substr(space == std::string::npos ? 0 : space + 1, last - (space == std::string::npos ? 0 : space + 1) + 1);
}

bool contains(const std::string& line, const char* words) { return line.find(words) != std::string::npos; }

}  // namespace

void hear(LlamaReport& report, const std::string& line) {
  for (const Kind& kind : kKinds) {
    const size_t found = line.find(kind.words);
    if (found == std::string::npos) continue;
    const double size = std::atof(line.c_str() + found + std::string(kind.words).size());
    report.buffers[wordBefore(line, found)].*kind.bytes += static_cast<uint64_t>(std::llround(size * kMiB));
    return;
  }
  // "llama_prepare_model_devices: using device CUDA0 (NVIDIA H100 80GB HBM3) (0000:01:00.0) - 80000 MiB free"
  if (const size_t found = line.find(": using device "); found != std::string::npos && report.device.empty()) {
    std::istringstream(line.substr(found + 15)) >> report.device;
  }
  // "load_tensors: offloaded 25/25 layers to GPU"
  if (const size_t found = line.find(": offloaded "); found != std::string::npos) {
    char slash = 0;
    int offloaded = 0, layers = 0;
    if (std::istringstream(line.substr(found + 12)) >> offloaded >> slash >> layers && slash == '/') {
      report.offloadedLayers = offloaded;
      report.layers = layers;
    }
  }
  // "resolve_fused_ops: Flash Attention enabled", "...: Flash Attention not supported, set to disabled"
  if (contains(line, ": Flash Attention enabled")) report.flashAttention = 1;
  if (contains(line, ": Flash Attention not supported")) report.flashAttention = 0;
}

void addBuffers(std::map<std::string, BufferBytes>& sum, const std::map<std::string, BufferBytes>& more) {
  for (const auto& [place, bytes] : more) {
    BufferBytes& all = sum[place];
    all.weights += bytes.weights;
    all.adapters += bytes.adapters;
    all.kv += bytes.kv;
    all.compute += bytes.compute;
    all.output += bytes.output;
  }
}

Listening::Listening(LlamaReport& report) : outer_(listening) { listening = &report; }

Listening::~Listening() { listening = outer_; }

LlamaReport* Listening::current() { return listening; }

}  // namespace hone
