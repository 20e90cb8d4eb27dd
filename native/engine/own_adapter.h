// LoRA adapters for OwnDecoder. The factors of linear layers with one input are two matrices, A's rows one below the other and
// B's blocks along a diagonal, so that they cost two products and not six. Both stay in 32 bits, as llama.cpp's; but A is rounded to
// the type of the weights where it can be rows of their matrices, and then the product with these is that with A.
#pragma once

#include <string>
#include <vector>

#include "own_weights.h"

namespace hone {

/** An adapter in the host's memory. */
class OwnAdapter {
 public:
  /** @throws std::runtime_error when it does not fit the model */
  OwnAdapter(const std::string& path, const OwnWeights& weights);

  const std::string path;
  /** Of its factors the largest. */
  int rank() const { return rank_; }

 private:
  friend class AdapterRoom;
  struct Factors {
    int rank = 0;
    /** [inputs, rank] and [rank, outputs], B times alpha / rank. */
    std::vector<float> a, b;
  };
  /** By layer, group and part; of rank 0 where there are none. */
  std::vector<std::vector<Factors>> factors_[kLinearGroups];
  int rank_ = 0;
};

/** Where an adapter lies on the device. Its tensors stay where they are when another one of at most this rank follows. */
class AdapterRoom {
 public:
  struct Pair {
    /** [inputs, R] and [R, outputs], for R ranks of all parts together. */
    ggml_tensor* a = nullptr;
    ggml_tensor* b = nullptr;
    /** [inputs, outputs + ... + R]: the weights' matrix, of which `a` is the last rows; or null. */
    ggml_tensor* joint = nullptr;
  };

  /** @throws OutOfMemory */
  AdapterRoom(const OwnWeights& weights, int rank, ggml_backend_buffer_type_t place, int multiple);

  int rank() const { return rank_; }
  uint64_t bytes() const { return libLlama()->ggml_backend_buffer_get_size(buffer_.get()); }
  const Pair& of(int layer, LinearGroup group) const { return pairs_[static_cast<size_t>(layer)].groups[group]; }
  void upload(const OwnWeights& weights, const OwnAdapter& adapter);
  /** [outputs, 1, layers]: q's, k's and v's biases of all layers where A has rows in the weights, for which they are 0; or null. */
  ggml_tensor* biases() const { return biases_; }

 private:
  struct Layer {
    Pair groups[kLinearGroups];
  };
  const int rank_;
  const std::shared_ptr<const int> room_;
  ggml_tensor* biases_ = nullptr;
  Held<ggml_context> context_;
  Held<ggml_backend_buffer> buffer_;
  std::vector<Layer> pairs_;
};

}  // namespace hone
