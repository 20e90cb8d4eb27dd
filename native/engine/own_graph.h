// The graph of one pass of OwnDecoder, in operations of ggml.
//
//   rows    one for each token; linear layers see all of them at once
//   spans   neighbouring slots with equally many rows: one attention for each span, over the window of its slots' cells
//   grid    a span whose slots have fewer rows than it: queries are spread over it, so that the shape does not depend on how many
//
// A pass is decoding (a span with a row of each slot), a prompt (a span with many rows of a slot), or both (several spans, or a grid).
//
// K and V of all layers and slots are one tensor: a slot's are contiguous, so that a copy of its first cells is one operation. A
// graph refers to tensors by their addresses, which stay: it is built once for a shape, and evaluated again with other inputs,
// all of which are one upload.
#pragma once

#include <cstdint>
#include <vector>

#include "own_adapter.h"
#include "own_weights.h"

namespace hone {

struct Span {
  int firstSlot;
  int slots;
  /** Rows of each slot. */
  int tokens;
  /** Cells of each slot that are seen, from the first. */
  int window;
};

/** By which graphs are found again. */
struct PassShape {
  std::vector<Span> spans;
  /** Rows of a grid, which is the only span; else 0. */
  int packed = 0;
  /** Rows whose logits are wanted. */
  int outputs = 0;
  bool adapter = false;
  /** Tokens are drawn, and logits stay. */
  bool draws = false;

  int rows() const { return packed > 0 ? packed : queries(); }
  /** Of attention. */
  int queries() const;
  /** A key. */
  std::vector<int> numbers() const;
};

/** What the graphs of a decoder have in common. */
struct OwnMemory {
  /** Of a slot's buffer. */
  int cells = 0;
  /** With the last one, which is no sequence's: rows that only fill a shape write there. With steady shapes also one before it. */
  int slots = 0;
  /** [kvWidth, cells, 2 · layers, slots], f16: of each layer the keys, then the values. */
  ggml_tensor* kv = nullptr;
  /** [2 · cells]: so many zeros, and then -infinity: the mask of a row that sees n cells begins at `cells` - n. */
  ggml_tensor* visibility = nullptr;
  /** Bytes. */
  ggml_tensor* inputs = nullptr;
  /**
   * Of a pass of one row with an adapter: what the layers add up to, [width], zeros for A's rows, and what goes into `down`, [inner]:
   * CUDA asks that it be apart from what it follows from. Null where the weights have no rows for A.
   */
  ggml_tensor* sum = nullptr;

  /** Where `OwnGraph::cells` of a position is. */
  int64_t cellOf(int slot, int position, int layers) const {
    return (static_cast<int64_t>(slot) * 2 * layers) * cells + position;
  }
};

/** Bytes of inputs that a pass of so many rows, and queries of a grid, has at most. */
size_t inputBytes(int rows, int queries);

class OwnGraph {
 public:
  /** Describes the pass; OwnDecoder::allocateGraph gives it memory. `room`: where `shape.adapter`. */
  OwnGraph(const OwnWeights& weights, const OwnMemory& memory, const AdapterRoom* room, const PassShape& shape);

  ggml_cgraph* graph() const { return graph_; }
  int rows() const { return rows_; }
  int outputs() const { return outputs_; }
  /** [vocabulary, outputs], or what was drawn [kDrawnNumbers, outputs]; null without outputs. */
  ggml_tensor* result() const { return result_; }

  // Inputs, for `upload`, each in the order of the rows.
  int32_t* tokens() { return at<int32_t>(tokens_); }
  int32_t* positions() { return at<int32_t>(positions_); }
  /** See OwnMemory::cellOf. */
  int64_t* cells() { return at<int64_t>(cells_); }
  /** Of a query that sees n cells: `OwnMemory::cells` - n. */
  int32_t* visible() { return at<int32_t>(visible_); }
  /** Of a grid: the row of each query, and a query of each row. */
  int32_t* rowOf() { return at<int32_t>(rowOf_); }
  int32_t* queryOf() { return at<int32_t>(queryOf_); }
  /** Rows whose logits are wanted. */
  int32_t* wanted() { return at<int32_t>(wanted_); }
  /** See SamplingGraph::asked. */
  float* asked() { return at<float>(asked_); }
  /** Before what the backend does next. */
  void upload(ggml_backend_t backend);

 private:
  struct Input {
    ggml_tensor* tensor = nullptr;
    size_t offset = 0;
  };
  template <typename T>
  T* at(const Input& input) {
    return reinterpret_cast<T*>(bytes_.data() + input.offset);
  }
  Input place(ggml_type type, int64_t width, int64_t height);
  ggml_tensor* norm(ggml_tensor* input, ggml_tensor* weight);
  std::vector<ggml_tensor*> jointly(int layer, LinearGroup group, const AdapterRoom::Pair& pair, ggml_tensor* input);
  std::vector<ggml_tensor*> linear(int layer, LinearGroup group, ggml_tensor* input);
  ggml_tensor* rotated(ggml_tensor* heads, ggml_tensor* weight);
  ggml_tensor* attention(int layer, ggml_tensor* query);
  void store(int layer, ggml_tensor* key, ggml_tensor* value);
  void build();

  const LibLlama& lib_;
  const OwnWeights& weights_;
  const OwnMemory& memory_;
  const AdapterRoom* const room_;
  const PassShape shape_;
  const int rows_;
  const int outputs_;
  /**
   * One row, with an adapter. To its products CUDA adds at once what has their shape: the bias, or the sum of the layers before, to
   * [Wx; Ax], with zeros for Ax; and Wx to B(Ax). So that also makes gate, up and what follows them one kernel, they are two products.
   */
  const bool alone_;
  Held<ggml_context> context_;
  ggml_context* const c_;
  ggml_cgraph* graph_;
  Input tokens_, positions_, cells_, visible_, rowOf_, queryOf_, wanted_, asked_;
  size_t used_ = 0;
  std::vector<char> bytes_;
  std::vector<ggml_tensor*> masks_;
  /** [outputs, rows, layers]: AdapterRoom::biases for each row, since only equal shapes are added at once; or null. */
  ggml_tensor* biases_ = nullptr;
  ggml_tensor* result_ = nullptr;
};

}  // namespace hone
