#include "sampling_graph.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "libllama.h"

namespace hone {
namespace {

/** Blocks of sizes in this range are used where one divides the vocabulary, else the probabilities are padded to this. */
constexpr int kLeastBlock = 64;
constexpr int kMostBlock = 512;
constexpr int kPaddedBlock = 256;

/**
 * Of a sum, this share is always below it, whatever the order of its additions: running sums on a GPU are made of parts.
 * It is 4 units in the last place.
 */
constexpr float kBelow = 1 - 0x1p-21f;

struct Builder {
  const LibLlama& lib;
  ggml_context* context;
  int64_t rows;

  /** n, n - 1, ... 1: the first of several places has the highest number. */
  ggml_tensor* ramp(int64_t n) const {
    const float end = static_cast<float>(n);
    return lib.ggml_scale_bias(context, lib.ggml_arange(context, 0, end, 1), -1, end);
  }

  /** The last column of [n, rows], as [1, rows]. */
  ggml_tensor* last(ggml_tensor* sums) const {
    const size_t at = static_cast<size_t>(sums->ne[0] - 1) * sizeof(float);
    return lib.ggml_cont(context, lib.ggml_view_2d(context, sums, 1, rows, sums->nb[1], at));
  }

  /** One entry a row of `values` [n, rows] at `places` [1, rows], as [1, rows]. */
  ggml_tensor* at(ggml_tensor* values, ggml_tensor* places) const {
    ggml_tensor* single = lib.ggml_reshape_3d(context, values, 1, values->ne[0], rows);
    return lib.ggml_reshape_2d(context, lib.ggml_get_rows(context, single, places), 1, rows);
  }

  struct Found {
    /** [1, rows], I32. */
    ggml_tensor* place;
    /** [1, rows]: n - place. */
    ggml_tensor* fromEnd;
  };
  /**
   * In each row of weights [n, rows] the first place with a weight where the running sum exceeds `target` [1, rows], which
   * is below the last sum. Where a weight is 0, rounding may raise a running sum that is made of parts: such places are
   * passed over. ggml_argmax is defined where one place alone has the maximum, which the ramp sees to.
   */
  Found find(ggml_tensor* weights, ggml_tensor* sums, ggml_tensor* target) const {
    ggml_tensor* beyond = lib.ggml_step(context, lib.ggml_sub(context, sums, target));
    ggml_tensor* possible = lib.ggml_mul(context, beyond, lib.ggml_step(context, weights));
    ggml_tensor* score = lib.ggml_mul(context, possible, ramp(weights->ne[0]));
    ggml_tensor* place = lib.ggml_reshape_2d(context, lib.ggml_argmax(context, score), 1, rows);
    return {place, at(score, place)};
  }
};

}  // namespace

int blockOf(int64_t vocabulary) {
  for (int block = kMostBlock; block >= kLeastBlock; block--) {
    if (vocabulary % block == 0) return block;
  }
  return kPaddedBlock;
}

float uniformInput(double uniform) { return std::min(static_cast<float>(uniform), kBelow); }

SamplingGraph buildSampling(ggml_context* context, ggml_tensor* logits, ggml_tensor* asked) {
  const LibLlama& lib = *libLlama();
  const int64_t vocabulary = logits->ne[0];
  const int64_t rows = logits->ne[1];
  const int64_t block = blockOf(vocabulary);
  const int64_t blocks = (vocabulary + block - 1) / block;
  const int64_t padding = blocks * block - vocabulary;
  const Builder builder{lib, context, rows};
  SamplingGraph graph;
  graph.rows = static_cast<int>(rows);
  graph.asked = asked ? asked : lib.ggml_new_tensor_2d(context, GGML_TYPE_F32, rows, 2);
  if (!asked) lib.ggml_set_input(graph.asked);
  // A copy on the device: of views of an input llama.cpp would copy each.
  ggml_tensor* there = lib.ggml_cont(context, graph.asked);
  const auto row = [&](size_t index) { return lib.ggml_view_2d(context, there, 1, rows, sizeof(float), index * there->nb[1]); };
  ggml_tensor* uniforms = row(0);

  ggml_tensor* probabilities = lib.ggml_soft_max(context, lib.ggml_mul(context, logits, row(1)));
  if (padding > 0) probabilities = lib.ggml_pad(context, probabilities, static_cast<int>(padding), 0, 0, 0);
  probabilities = lib.ggml_reshape_3d(context, probabilities, block, blocks, rows);

  ggml_tensor* masses = lib.ggml_reshape_2d(context, lib.ggml_sum_rows(context, probabilities), blocks, rows);
  ggml_tensor* sums = lib.ggml_cumsum(context, masses);
  ggml_tensor* target = lib.ggml_mul(context, builder.last(sums), uniforms);
  const Builder::Found chosen = builder.find(masses, sums, target);

  ggml_tensor* weights = lib.ggml_get_rows(context, probabilities, chosen.place);
  weights = lib.ggml_reshape_2d(context, weights, block, rows);
  ggml_tensor* within = lib.ggml_cumsum(context, weights);
  ggml_tensor* before = builder.at(lib.ggml_sub(context, sums, masses), chosen.place);
  ggml_tensor* rest = lib.ggml_sub(context, target, before);
  // The smaller of `rest` and what is surely below the block's last sum: a - max(0, a - b).
  ggml_tensor* most = lib.ggml_scale(context, builder.last(within), kBelow);
  rest = lib.ggml_sub(context, most, lib.ggml_relu(context, lib.ggml_sub(context, most, rest)));
  const Builder::Found token = builder.find(weights, within, rest);

  ggml_tensor* logprob = lib.ggml_log(context, builder.at(weights, token.place));
  ggml_tensor* places = lib.ggml_concat(context, chosen.fromEnd, token.fromEnd, 0);
  graph.drawn = lib.ggml_concat(context, places, logprob, 0);
  return graph;
}

Drawn drawnFrom(const float* row, int64_t vocabulary) {
  const int64_t block = blockOf(vocabulary);
  const int64_t blocks = (vocabulary + block - 1) / block;
  Drawn drawn;
  for (int i = 0; i < kDrawnNumbers; i++) {
    if (!std::isfinite(row[i])) return drawn;
  }
  const int64_t token = (blocks - std::llround(row[0])) * block + block - std::llround(row[1]);
  if (token < 0 || token >= vocabulary) return drawn;
  drawn.token = static_cast<Token>(token);
  // Rounding may make a certain token's probability exceed 1.
  drawn.logprob = std::min(row[2], 0.0f);
  return drawn;
}

const char* missingForSampling(ggml_backend_dev_t device, int64_t vocabulary) {
  const LibLlama& lib = *libLlama();
  constexpr size_t kTensors = 256;
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> context(
      lib.ggml_init({kTensors * lib.ggml_tensor_overhead(), nullptr, true}), lib.ggml_free);
  if (!context) return "memory";
  buildSampling(context.get(), lib.ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, vocabulary, 2));
  for (ggml_tensor* one = lib.ggml_get_first_tensor(context.get()); one;
       one = lib.ggml_get_next_tensor(context.get(), one)) {
    if (one->op != GGML_OP_NONE && !lib.ggml_backend_dev_supports_op(device, one)) return lib.ggml_op_desc(one);
  }
  return nullptr;
}

}  // namespace hone
