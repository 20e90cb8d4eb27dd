// Draws tokens in llama.cpp's graph, so that logits stay on the device. llama.cpp calls a sampler for each row; these
// samplers reach all rows of a pass through the source of that row's view, add one sub-graph for all of them, and give it
// out as the first row's result: one copy to the host a pass.
//
// That is no promise of llama.h: the shape of what a sampler is given is checked whenever a graph is built, and
// sampling_trial.h tries it before anything is sampled so.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decoder.h"
#include "libllama.h"
#include "sampling_graph.h"

namespace hone {

/**
 * Rows that can be drawn in one pass: llama.cpp asserts that a row's result is no longer than the vocabulary, and the first
 * row's is that of all.
 */
inline int mostRows(int vocabulary) { return vocabulary / kDrawnNumbers; }

/** Used by one thread at a time. Must outlive the context that has its samplers. */
class DeviceSampler {
 public:
  explicit DeviceSampler(int vocabulary);
  DeviceSampler(const DeviceSampler&) = delete;
  DeviceSampler& operator=(const DeviceSampler&) = delete;

  /** New samplers for llama.cpp's sequences from 0 on: a context takes none that another one had. */
  const std::vector<llama_sampler_seq_config>& renew(int sequences);

  const std::vector<llama_sampler_seq_config>& samplers() const { return configs_; }

  /** Before a batch with draws, with llama.cpp's id of each token's sequence. @throws std::runtime_error */
  void expect(const Batch& batch, const std::vector<int32_t*>& sequences);
  /** After it, when it has been computed. @throws std::runtime_error when llama.cpp did not draw as expected */
  void collect(llama_context* context);
  /** What was drawn after a row of the batch whose logits were requested. */
  Drawn drawn(int row) const { return drawn_[row]; }
  uint64_t copiedBytes() const { return copiedBytes_; }

 private:
  /** The sampler of a sequence. */
  struct Member {
    DeviceSampler* owner;
    int sequence;
    /** Of the last graph: its rows. llama.cpp gives samplers without rows row 0. */
    std::vector<int> rows;
  };
  struct SamplerFree {
    void operator()(llama_sampler* sampler) const;
  };
  /** A requested row of the batch, in the order of its sequence's rows. */
  struct Asked {
    int row;
    float uniform;
    float scale;
  };
  /** A pass with rows: for each of them its row in the batch. */
  using Pass = std::vector<int>;

  static const llama_sampler_i kInterface;
  static Member& memberOf(llama_sampler* sampler) { return *static_cast<Member*>(sampler->ctx); }
  void build(Member& member, ggml_context* context, llama_sampler_data& data);
  void fillInputs(const Member& member);
  void complain(const char* what);

  const int vocabulary_;
  std::vector<std::unique_ptr<llama_sampler, SamplerFree>> chains_;
  std::vector<llama_sampler_seq_config> configs_;
  /** Of the graph that llama.cpp built last. */
  SamplingGraph graph_;
  /** Sizes of a pass's result that llama.cpp has confirmed since the samplers are these. */
  std::set<size_t> checked_;
  /** Why llama.cpp's graph is not as expected; "" where it is. */
  std::string complaint_;

  /** By sequence. */
  std::vector<std::vector<Asked>> asked_;
  std::vector<size_t> next_;
  /** `SamplingGraph::asked`. */
  std::vector<float> inputs_;
  /** The pass whose inputs are being filled, and how many rows have theirs. */
  Pass filling_;
  int filled_ = 0;
  std::vector<Pass> passes_;
  std::vector<Drawn> drawn_;
  uint64_t copiedBytes_ = 0;
};

}  // namespace hone
