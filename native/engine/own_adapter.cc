#include "own_adapter.h"

#include <algorithm>

#include "failure.h"

namespace hone {
namespace {

/** Rounds numbers to a type of 16 bits, and returns them in that; nothing where it has 32. */
std::vector<ggml_fp16_t> round(std::vector<float>& numbers, ggml_type type) {
  const LibLlama& lib = *libLlama();
  if (type == GGML_TYPE_F32) return {};
  std::vector<ggml_fp16_t> half(numbers.size());
  const auto count = static_cast<int64_t>(numbers.size());
  if (type == GGML_TYPE_F16) {
    lib.ggml_fp32_to_fp16_row(numbers.data(), half.data(), count);
    lib.ggml_fp16_to_fp32_row(half.data(), numbers.data(), count);
  } else {
    auto* const rounded = reinterpret_cast<ggml_bf16_t*>(half.data());
    lib.ggml_fp32_to_bf16_row(numbers.data(), rounded, count);
    lib.ggml_bf16_to_fp32_row(rounded, numbers.data(), count);
  }
  return half;
}

}  // namespace

OwnAdapter::OwnAdapter(const std::string& file, const OwnWeights& weights) : path(file) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("the adapter " + path + " cannot be put on " + weights.path + ": " + why);
  };
  try {
    const GgufFile opened(path);
    if (opened.text("general.type") != "adapter" || opened.text("adapter.type") != "lora") refuse("it is no LoRA adapter");
    if (opened.text("general.architecture") != weights.shape.architecture) refuse("it is for another architecture");
    const double alpha = opened.number("adapter.lora.alpha").value_or(0);
    for (int group = 0; group < kLinearGroups; group++) factors_[group].resize(weights.layers.size());
    for (size_t layer = 0; layer < weights.layers.size(); layer++) {
      for (int group = 0; group < kLinearGroups; group++) {
        const OwnLinears& linears = weights.layers[layer].linears[group];
        for (const OwnLinears::Part& part : linears.parts) {
          Factors& factors = factors_[group][layer].emplace_back();
          const std::string name = "blk." + std::to_string(layer) + "." + part.name + ".weight.lora_";
          const ggml_tensor* a = opened.find(name + "a");
          const ggml_tensor* b = opened.find(name + "b");
          if (!a && !b) continue;
          if (!a || !b) refuse(name + (a ? "b" : "a") + " is missing");
          if (a->ne[0] != linears.inputs || b->ne[1] != part.outputs || a->ne[1] != b->ne[0] || a->ne[2] * a->ne[3] * b->ne[2] * b->ne[3] != 1) {
            refuse(name + "a and b have not the shapes of the model's layer");
          }
          factors.rank = static_cast<int>(a->ne[1]);
          factors.a = opened.floats(name + "a");
          factors.b = opened.floats(name + "b");
          const auto scale = static_cast<float>(alpha > 0 ? alpha / factors.rank : 1);
          for (float& number : factors.b) number *= scale;
          rank_ = std::max(rank_, factors.rank);
        }
      }
    }
    if (const std::string unread = opened.unread(); !unread.empty()) refuse("the model has no layer for its tensor " + unread);
    if (rank_ == 0) refuse("it changes nothing");
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("no room for the adapter " + path);
  }
}

AdapterRoom::AdapterRoom(const OwnWeights& weights, int rank, ggml_backend_buffer_type_t place, int multiple)
    : rank_(rank),
      room_(weights.typeOfA != GGML_TYPE_F32 && rank <= OwnWeights::kJointRank ? weights.takeRoom() : nullptr),
      context_(newContext(3 * kLinearGroups * weights.layers.size() + 1)) {
  const LibLlama& lib = *libLlama();
  for (const OwnLayer& layer : weights.layers) {
    Layer& made = pairs_.emplace_back();
    for (int group = 0; group < kLinearGroups; group++) {
      const OwnLinears& linears = layer.linears[group];
      const int rows = (static_cast<int>(linears.parts.size()) * rank + multiple - 1) / multiple * multiple;
      Pair& pair = made.groups[group];
      pair.b = lib.ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, rows, linears.outputs());
      if (room_ && linears.spare() > 0) {
        ggml_tensor* matrix = linears.matrices[0];
        const int first = linears.outputs() + *room_ * linears.spare() / OwnWeights::kRooms;
        pair.a = placed(context_.get(), matrix->type, linears.inputs, rows, matrix, static_cast<size_t>(first) * matrix->nb[1]);
        pair.joint = placed(context_.get(), matrix->type, linears.inputs, first + rows, matrix, 0);
      } else {
        pair.a = lib.ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, linears.inputs, rows);
      }
    }
  }
  const OwnLinears& first = weights.layers[0].linears[kAttentionIn];
  if (const ggml_tensor* joint = pairs_[0].groups[kAttentionIn].joint; joint && first.bias) {
    biases_ = lib.ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, joint->ne[1], 1, static_cast<int64_t>(weights.layers.size()));
  }
  buffer_.reset(lib.ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), place));
  if (!buffer_) throw OutOfMemory("no room for an adapter of rank " + std::to_string(rank));
  std::vector<char> bias(biases_ ? biases_->nb[2] : 0);
  for (size_t layer = 0; biases_ && layer < weights.layers.size(); layer++) {
    lib.ggml_backend_tensor_get(weights.layers[layer].linears[kAttentionIn].bias, bias.data(), 0, lib.ggml_nbytes(first.bias));
    lib.ggml_backend_tensor_set(biases_, bias.data(), layer * bias.size(), bias.size());
  }
}

void AdapterRoom::upload(const OwnWeights& weights, const OwnAdapter& adapter) {
  const LibLlama& lib = *libLlama();
  std::vector<float> a, b;
  for (size_t layer = 0; layer < pairs_.size(); layer++) {
    for (int group = 0; group < kLinearGroups; group++) {
      const OwnLinears& linears = weights.layers[layer].linears[group];
      const Pair& pair = pairs_[layer].groups[group];
      const auto rows = static_cast<size_t>(pair.a->ne[1]);
      // Everywhere, so that nothing is left of the adapter before.
      a.assign(rows * static_cast<size_t>(linears.inputs), 0);
      b.assign(rows * static_cast<size_t>(linears.outputs()), 0);
      size_t row = 0, output = 0;
      for (size_t part = 0; part < linears.parts.size(); part++) {
        const OwnAdapter::Factors& factors = adapter.factors_[group][layer][part];
        const auto rank = static_cast<size_t>(factors.rank);
        std::copy(factors.a.begin(), factors.a.end(), a.begin() + static_cast<std::ptrdiff_t>(row * static_cast<size_t>(linears.inputs)));
        for (size_t i = 0; i < factors.b.size(); i++) b[(output + i / rank) * rows + row + i % rank] = factors.b[i];
        row += static_cast<size_t>(rank_);
        output += static_cast<size_t>(linears.parts[part].outputs);
      }
      const std::vector<ggml_fp16_t> half = round(a, weights.typeOfA);
      if (pair.joint) lib.ggml_backend_tensor_set(pair.a, half.data(), 0, half.size() * sizeof(ggml_fp16_t));
      else lib.ggml_backend_tensor_set(pair.a, a.data(), 0, a.size() * sizeof(float));
      lib.ggml_backend_tensor_set(pair.b, b.data(), 0, b.size() * sizeof(float));
    }
  }
}

}  // namespace hone
