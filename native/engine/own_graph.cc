#include "own_graph.h"

#include <algorithm>
#include <cmath>

#include "sampling_graph.h"

namespace hone {
namespace {

/** Operations and tensors of a graph at most: of a layer, of a span in a layer, and of the rest with drawing. */
constexpr size_t kLayerTensors = 64;
constexpr size_t kSpanTensors = 8;
constexpr size_t kOtherTensors = 160;
constexpr size_t kAlign = 256;

size_t tensorsOf(const OwnWeights& weights, const PassShape& shape) {
  const size_t spans = shape.spans.size();
  return weights.layers.size() * (kLayerTensors + kSpanTensors * spans) + kOtherTensors + kSpanTensors * spans;
}

Held<ggml_context> contextFor(size_t tensors) {
  const LibLlama& lib = *libLlama();
  const size_t bytes = tensors * lib.ggml_tensor_overhead() + lib.ggml_graph_overhead_custom(tensors, false);
  Held<ggml_context> context(lib.ggml_init({bytes, nullptr, true}));
  if (!context) throw std::bad_alloc();
  return context;
}

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

int PassShape::queries() const {
  int queries = 0;
  for (const Span& span : spans) queries += span.slots * span.tokens;
  return queries;
}

std::vector<int> PassShape::numbers() const {
  std::vector<int> numbers{packed, outputs, adapter ? 1 : 0, draws ? 1 : 0};
  for (const Span& span : spans) numbers.insert(numbers.end(), {span.firstSlot, span.slots, span.tokens, span.window});
  return numbers;
}

size_t inputBytes(int rows, int queries) {
  // Tokens, positions, queryOf, wanted and two numbers for drawing of 4 bytes, cells of 8; visible and rowOf of 4.
  return static_cast<size_t>(rows) * 32 + static_cast<size_t>(std::max(rows, queries)) * 8 + 8 * kAlign;
}

OwnGraph::OwnGraph(const OwnWeights& weights, const OwnMemory& memory, const AdapterRoom* room, const PassShape& shape)
    : lib_(*libLlama()),
      weights_(weights),
      memory_(memory),
      room_(shape.adapter ? room : nullptr),
      shape_(shape),
      rows_(shape.rows()),
      outputs_(shape.outputs),
      alone_(room_ && memory.sum && rows_ == 1),
      context_(contextFor(tensorsOf(weights, shape))),
      c_(context_.get()),
      graph_(lib_.ggml_new_graph_custom(c_, tensorsOf(weights, shape), false)) {
  build();
}

OwnGraph::Input OwnGraph::place(ggml_type type, int64_t width, int64_t height) {
  const Input input{placed(c_, type, width, height, memory_.inputs, used_), used_};
  used_ = aligned(used_ + lib_.ggml_nbytes(input.tensor));
  return input;
}

ggml_tensor* OwnGraph::norm(ggml_tensor* input, ggml_tensor* weight) {
  return lib_.ggml_mul(c_, lib_.ggml_rms_norm(c_, input, weights_.shape.epsilon), weight);
}

/** W x + B (A x) + bias, where W x and A x are one product. What is added follows it, so that a device does that at once. */
std::vector<ggml_tensor*> OwnGraph::jointly(int layer, LinearGroup group, const AdapterRoom::Pair& pair, ggml_tensor* input) {
  const OwnLinears& linears = weights_.layers[static_cast<size_t>(layer)].linears[group];
  const int64_t rows = input->ne[1], rank = pair.b->ne[0], all = pair.joint->ne[1];
  ggml_tensor* both = lib_.ggml_mul_mat(c_, pair.joint, input);
  ggml_tensor* const first = group == kAttentionIn ? room_->biases() : group == kInnerIn ? nullptr : memory_.sum;
  const size_t of = group == kAttentionIn ? static_cast<size_t>(layer) : 0;
  if (alone_ && first) both = lib_.ggml_add(c_, both, placed(c_, GGML_TYPE_F32, all, 1, first, of * first->nb[2]));
  ggml_tensor* bias = alone_ && first && group == kAttentionIn ? nullptr : linears.bias;
  if (biases_ && group == kAttentionIn) bias = lib_.ggml_view_2d(c_, biases_, biases_->ne[0], rows, biases_->nb[1], of * biases_->nb[2]);
  if (bias) lib_.ggml_build_forward_expand(graph_, bias);
  const auto part = [&](int64_t from, int64_t outputs) {
    return lib_.ggml_view_2d(c_, both, outputs, rows, both->nb[1], static_cast<size_t>(from) * sizeof(float));
  };
  const int64_t outputs = alone_ && group == kInnerIn && !bias ? linears.parts[0].outputs : linears.outputs();
  ggml_tensor* low = part(all - rank, rank);
  std::vector<ggml_tensor*> results;
  for (int64_t from = 0; from < linears.outputs(); from += outputs) {
    lib_.ggml_build_forward_expand(graph_, results.emplace_back(part(from, outputs)));
  }
  for (size_t i = 0; i < results.size(); i++) {
    ggml_tensor* b = placed(c_, GGML_TYPE_F32, rank, outputs, pair.b, i * static_cast<size_t>(outputs) * pair.b->nb[1]);
    results[i] = lib_.ggml_add(c_, results[i], lib_.ggml_mul_mat(c_, b, low));
    if (bias) results[i] = lib_.ggml_add(c_, results[i], bias);
  }
  return results;
}

/** W x + B (A x) + bias: in one tensor for all parts, or in one for each. */
std::vector<ggml_tensor*> OwnGraph::linear(int layer, LinearGroup group, ggml_tensor* input) {
  const OwnLinears& linears = weights_.layers[static_cast<size_t>(layer)].linears[group];
  const AdapterRoom::Pair* pair = room_ ? &room_->of(layer, group) : nullptr;
  if (pair && pair->joint) return jointly(layer, group, *pair, input);
  ggml_tensor* change = nullptr;
  if (pair) change = lib_.ggml_mul_mat(c_, pair->b, lib_.ggml_mul_mat(c_, pair->a, input));
  std::vector<ggml_tensor*> results;
  int64_t from = 0;
  for (ggml_tensor* matrix : linears.matrices) {
    if (linears.spare() > 0) matrix = placed(c_, matrix->type, linears.inputs, linears.outputs(), matrix, 0);
    ggml_tensor* result = lib_.ggml_mul_mat(c_, matrix, input);
    const int64_t outputs = matrix->ne[1];
    const bool all = linears.matrices.size() == 1;
    const size_t offset = static_cast<size_t>(from) * sizeof(float);
    if (change) {
      result = lib_.ggml_add(c_, result, all ? change : lib_.ggml_view_2d(c_, change, outputs, input->ne[1], change->nb[1], offset));
    }
    if (linears.bias) result = lib_.ggml_add(c_, result, all ? linears.bias : lib_.ggml_view_1d(c_, linears.bias, outputs, offset));
    results.push_back(result);
    from += outputs;
  }
  return results;
}

/** @param weight of the norm of each head, or null */
ggml_tensor* OwnGraph::rotated(ggml_tensor* heads, ggml_tensor* weight) {
  const OwnShape& shape = weights_.shape;
  if (weight) heads = norm(heads, weight);
  return lib_.ggml_rope_ext(c_, heads, positions_.tensor, weights_.ropeFactors, shape.headSize, shape.ropeMode, shape.trainedContext,
                            shape.ropeBase, 1, 0, 1, 32, 1);
}

/** Writes keys and values of all rows into their cells. */
void OwnGraph::store(int layer, ggml_tensor* key, ggml_tensor* value) {
  const OwnShape& shape = weights_.shape;
  const int64_t span = static_cast<int64_t>(memory_.slots - 1) * 2 * shape.layers * memory_.cells + memory_.cells;
  const auto write = [&](int which, ggml_tensor* rows) {
    const size_t from = static_cast<size_t>(2 * layer + which) * memory_.kv->nb[2];
    ggml_tensor* to = placed(c_, GGML_TYPE_F16, shape.kvWidth(), span, memory_.kv, from);
    lib_.ggml_build_forward_expand(graph_, lib_.ggml_set_rows(c_, to, rows, cells_.tensor));
  };
  write(0, lib_.ggml_view_2d(c_, key, shape.kvWidth(), rows_, key->nb[2], 0));
  write(1, value);
}

/** @param query [headSize, heads, rows], contiguous. Returns [headSize · heads, rows]. */
ggml_tensor* OwnGraph::attention(int layer, ggml_tensor* query) {
  const OwnShape& shape = weights_.shape;
  const ggml_tensor* kv = memory_.kv;
  const float scale = 1 / std::sqrt(static_cast<float>(shape.headSize));
  const int64_t width = static_cast<int64_t>(shape.headSize) * shape.heads;
  if (shape_.packed > 0) {
    query = lib_.ggml_get_rows(c_, lib_.ggml_reshape_2d(c_, query, width, rows_), rowOf_.tensor);
    query = lib_.ggml_reshape_3d(c_, query, shape.headSize, shape.heads, shape_.queries());
  }
  ggml_tensor* all = nullptr;
  int row = 0;
  for (size_t i = 0; i < shape_.spans.size(); i++) {
    const Span& span = shape_.spans[i];
    const auto seen = [&](int which) {
      const size_t from = static_cast<size_t>(span.firstSlot) * kv->nb[3] + static_cast<size_t>(2 * layer + which) * kv->nb[2];
      return lib_.ggml_view_4d(c_, memory_.kv, shape.headSize, span.window, shape.kvHeads, span.slots, kv->nb[1],
                               static_cast<size_t>(shape.headSize) * sizeof(ggml_fp16_t), kv->nb[3], from);
    };
    ggml_tensor* asking =
        lib_.ggml_view_4d(c_, query, shape.headSize, span.tokens, shape.heads, span.slots, query->nb[2], query->nb[1],
                          query->nb[2] * static_cast<size_t>(span.tokens), query->nb[2] * static_cast<size_t>(row));
    ggml_tensor* heads = lib_.ggml_flash_attn_ext(c_, asking, seen(0), seen(1), masks_[i], scale, 0, 0);
    lib_.ggml_prec_set_acc(heads, GGML_PREC_F32);
    const int rows = span.slots * span.tokens;
    ggml_tensor* result = lib_.ggml_reshape_2d(c_, heads, width, rows);
    all = all ? lib_.ggml_concat(c_, all, result, 1) : result;
    row += rows;
  }
  return shape_.packed > 0 ? lib_.ggml_get_rows(c_, all, queryOf_.tensor) : all;
}

void OwnGraph::build() {
  const OwnShape& shape = weights_.shape;
  tokens_ = place(GGML_TYPE_I32, rows_, 1);
  positions_ = place(GGML_TYPE_I32, rows_, 1);
  cells_ = place(GGML_TYPE_I64, rows_, 1);
  // Of all spans one behind the other, each of which is a tensor of its own below.
  visible_ = place(GGML_TYPE_I32, shape_.queries(), 1);
  if (shape_.packed > 0) {
    rowOf_ = place(GGML_TYPE_I32, shape_.queries(), 1);
    queryOf_ = place(GGML_TYPE_I32, rows_, 1);
  }
  wanted_ = place(GGML_TYPE_I32, std::max(1, outputs_), 1);
  asked_ = place(GGML_TYPE_F32, std::max(1, outputs_), 2);
  bytes_.assign(used_, 0);

  int before = 0;
  for (const Span& span : shape_.spans) {
    // A row of the mask is a piece of `visibility`, as if each number of that began a row.
    ggml_tensor* pieces = placed(c_, GGML_TYPE_F32, span.window, 1, memory_.visibility, 0);
    pieces->ne[1] = memory_.cells;
    pieces->nb[1] = sizeof(float);
    pieces->nb[2] = pieces->nb[3] = sizeof(float) * static_cast<size_t>(memory_.cells);
    const int rows = span.slots * span.tokens;
    ggml_tensor* which = lib_.ggml_view_1d(c_, visible_.tensor, rows, sizeof(int32_t) * static_cast<size_t>(before));
    ggml_tensor* mask = lib_.ggml_cast(c_, lib_.ggml_get_rows(c_, pieces, which), GGML_TYPE_F16);
    masks_.push_back(lib_.ggml_reshape_4d(c_, mask, span.window, span.tokens, 1, span.slots));
    before += rows;
  }

  // Few rows, as those of a pass that decodes: for many the copies of the biases would be large.
  if (room_ && room_->biases() && !alone_ && shape_.packed == 0 && shape_.spans.size() == 1 && shape_.spans[0].tokens == 1) {
    ggml_tensor* all = room_->biases();
    all = lib_.ggml_view_3d(c_, all, weights_.layers[0].linears[kAttentionIn].outputs(), 1, all->ne[2], all->nb[1], all->nb[2], 0);
    biases_ = lib_.ggml_repeat_4d(c_, all, all->ne[0], rows_, all->ne[2], 1);
  }
  const size_t number = sizeof(float);
  const auto kept = [&](ggml_tensor* tensor, int64_t from) {
    if (alone_) lib_.ggml_backend_tensor_alloc(memory_.sum->buffer, tensor, static_cast<float*>(memory_.sum->data) + from);
    return tensor;
  };
  ggml_tensor* x = kept(lib_.ggml_get_rows(c_, weights_.embeddings, tokens_.tensor), 0);
  const auto plus = [&](int layer, LinearGroup group, ggml_tensor* input) {
    ggml_tensor* result = linear(layer, group, input).front();
    return kept(alone_ && room_->of(layer, group).joint ? result : lib_.ggml_add(c_, result, x), 0);
  };
  const int width = shape.headSize;
  for (int i = 0; i < shape.layers; i++) {
    const OwnLayer& layer = weights_.layers[static_cast<size_t>(i)];
    const bool last = i == shape.layers - 1;
    const std::vector<ggml_tensor*> in = linear(i, kAttentionIn, norm(x, layer.attentionNorm));
    // Heads from one of the results on; all are in the first where that is of all parts.
    const auto heads = [&](size_t part, int count, int first) {
      ggml_tensor* from = in.size() == 1 ? in[0] : in[part];
      const size_t offset = in.size() == 1 ? static_cast<size_t>(first * width) * number : 0;
      return lib_.ggml_view_3d(c_, from, width, count, rows_, static_cast<size_t>(width) * number, from->nb[1], offset);
    };
    ggml_tensor* key = rotated(heads(1, shape.kvHeads, shape.heads), layer.keyNorm);
    ggml_tensor* value = heads(2, shape.kvHeads, shape.heads + shape.kvHeads);
    store(i, key, lib_.ggml_view_2d(c_, value, shape.kvWidth(), rows_, value->nb[2], 0));
    if (last && outputs_ == 0) return;
    ggml_tensor* attended = attention(i, rotated(heads(0, shape.heads, 0), layer.queryNorm));
    if (last && outputs_ < rows_) {
      attended = lib_.ggml_get_rows(c_, attended, wanted_.tensor);
      x = lib_.ggml_get_rows(c_, x, wanted_.tensor);
    }
    x = plus(i, kAttentionOut, attended);
    const std::vector<ggml_tensor*> inner = linear(i, kInnerIn, norm(x, layer.innerNorm));
    ggml_tensor* gated = inner.size() == 1 ? lib_.ggml_swiglu(c_, inner[0]) : lib_.ggml_swiglu_split(c_, inner[0], inner[1]);
    x = plus(i, kInnerOut, kept(gated, memory_.sum ? memory_.sum->ne[0] - shape.inner : 0));
  }
  result_ = lib_.ggml_mul_mat(c_, weights_.output, norm(x, weights_.outputNorm));
  if (shape_.draws) result_ = buildSampling(c_, result_, asked_.tensor).drawn;
  lib_.ggml_set_output(result_);
  lib_.ggml_build_forward_expand(graph_, result_);
}

void OwnGraph::upload(ggml_backend_t backend) {
  lib_.ggml_backend_tensor_set_async(backend, memory_.inputs, bytes_.data(), 0, bytes_.size());
}

}  // namespace hone
