// The weights of a model for OwnDecoder: matrices that have one input are one matrix where their types allow it. They lie in the
// kinds of buffers where llama.cpp has them, some of which store a matrix otherwise: so that both compute the same sums.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "gguf_file.h"
#include "libllama.h"
#include "report.h"

namespace hone {

/** The graph of its own cannot play this model here, and why, as a clause; llama.cpp may. */
class Unplayable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Owners of ggml's objects.
struct GgmlFree {
  void operator()(ggml_context* context) const { libLlama()->ggml_free(context); }
  void operator()(ggml_backend_buffer* buffer) const { libLlama()->ggml_backend_buffer_free(buffer); }
  void operator()(ggml_backend* backend) const { libLlama()->ggml_backend_free(backend); }
  void operator()(ggml_gallocr* allocator) const { libLlama()->ggml_gallocr_free(allocator); }
};
template <typename T>
using Held = std::unique_ptr<T, GgmlFree>;

/** A context for the descriptions of so many tensors. */
Held<ggml_context> newContext(size_t tensors);

/** A tensor whose memory is part of another one's. A view would not do: ggml's fused operations are found by their shape. */
ggml_tensor* placed(ggml_context* context, ggml_type type, int64_t width, int64_t height, ggml_tensor* within, size_t offset);

struct OwnShape {
  /** Of a kind that the graph knows. */
  std::string architecture;
  int layers = 0;
  int width = 0;
  int heads = 0;
  int kvHeads = 0;
  int headSize = 0;
  int inner = 0;
  int vocabulary = 0;
  int trainedContext = 0;
  float epsilon = 0;
  float ropeBase = 0;
  int ropeMode = 0;

  int kvWidth() const { return kvHeads * headSize; }
};

/** @throws Unplayable */
OwnShape ownShapeOf(const GgufFile& file);

/** Linear layers with one input. */
struct OwnLinears {
  struct Part {
    /** In GGUF: "attn_q". */
    std::string name;
    int outputs;
  };
  int inputs = 0;
  std::vector<Part> parts;
  /** Of all parts in one, [inputs, outputs], with `spare` rows; or of each part, where they differ in type or in their place. */
  std::vector<ggml_tensor*> matrices;
  /** Of all parts, or null. */
  ggml_tensor* bias = nullptr;

  int outputs() const;
  /** Rows behind those of the parts: for A of each of `kRooms` adapters. */
  int spare() const { return matrices.size() == 1 ? static_cast<int>(matrices[0]->ne[1]) - outputs() : 0; }
};

/** Of a layer, in the order in which they are used. */
enum LinearGroup { kAttentionIn, kAttentionOut, kInnerIn, kInnerOut, kLinearGroups };

struct OwnLayer {
  ggml_tensor* attentionNorm = nullptr;
  ggml_tensor* innerNorm = nullptr;
  /** Qwen3's, else null. */
  ggml_tensor* queryNorm = nullptr;
  ggml_tensor* keyNorm = nullptr;
  OwnLinears linears[kLinearGroups];
};

class OwnWeights {
 public:
  /** Adapters whose A can be rows of the matrices at a time: of two lanes. */
  static constexpr int kRooms = 2;
  /** Of these adapters, at most. */
  static constexpr int kJointRank = 32;

  /**
   * @param joint the matrices have rows for A, if they are all of one type of 16 bits
   * @throws Unplayable, or std::runtime_error when they cannot be loaded
   */
  OwnWeights(const std::string& path, ggml_backend_dev_t device, bool joint);
  OwnWeights(const OwnWeights&) = delete;
  OwnWeights& operator=(const OwnWeights&) = delete;

  const std::string path;
  const OwnShape shape;
  ggml_tensor* embeddings = nullptr;
  ggml_tensor* outputNorm = nullptr;
  ggml_tensor* output = nullptr;
  /** Llama 3's factors of the rotation's wavelengths, or null. */
  ggml_tensor* ropeFactors = nullptr;
  std::vector<OwnLayer> layers;
  uint64_t bytes = 0;
  LlamaReport report;
  /** To which A is rounded, whether it has rows here or not: that of all matrices; else 32 bits. */
  ggml_type typeOfA = GGML_TYPE_F32;

  /** One of the `kRooms`, while the number is held; null where all are. Thread-safe. */
  std::shared_ptr<const int> takeRoom() const;

 private:
  struct Loading;
  std::vector<Held<ggml_context>> contexts_;
  std::vector<Held<ggml_backend_buffer>> buffers_;
  mutable std::mutex rooms_;
  mutable std::weak_ptr<const int> taken_[kRooms];
};

/** The weights of one file, in memory while a decoder holds them. Thread-safe. */
class OwnWeightsFile {
 public:
  /** @param joint see OwnWeights */
  OwnWeightsFile(std::string path, bool useGpu, bool joint) : path_(std::move(path)), useGpu_(useGpu), joint_(joint) {}

  std::shared_ptr<const OwnWeights> acquire();
  /** While they are held; else 0. */
  uint64_t bytes() const;
  LlamaReport report() const;

 private:
  std::shared_ptr<const OwnWeights> held() const;

  const std::string path_;
  const bool useGpu_;
  const bool joint_;
  std::mutex loading_;
  mutable std::mutex mutex_;
  std::weak_ptr<const OwnWeights> loaded_;
};

/** The device that plays. @throws Unplayable where llama.cpp names none */
ggml_backend_dev_t deviceFor(bool useGpu);

}  // namespace hone
