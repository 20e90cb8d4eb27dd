// A decoder beside LlamaDecoder: a graph of hone's own (own_graph.h), on the same libraries of ggml. A batch is one pass whichever
// slots it has, graphs are built once for a shape, and an adapter is uploaded to where the one before was.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llama_decoder.h"
#include "model_decoder.h"
#include "own_adapter.h"
#include "own_graph.h"
#include "own_weights.h"

namespace hone {

class OwnDecoder final : public ModelDecoder {
 public:
  /**
   * Loads the weights, unless they are loaded, and allocates the KV.
   *
   * @param steady passes have few shapes: see SchedulerSettings::steady
   * @throws Unplayable, or another std::exception when it cannot be set up
   */
  OwnDecoder(std::shared_ptr<OwnWeightsFile> file, const ModelInfo& info, const LlamaSettings& settings, bool steady);
  ~OwnDecoder() override { lib_.ggml_backend_synchronize(backend_.get()); }

  const ModelInfo& info() const override { return info_; }
  uint64_t kvBytes() const override { return kvBytes_; }
  uint64_t kvBytesPerSequence() const override;
  bool fullKv() const override { return false; }
  /** Slots need not be neighbours, unless shapes are kept: these count the slots from the first. */
  bool pooled() const override { return !steady_; }
  LlamaReport report() const override;
  const std::string& whyHost() const override { return whyHost_; }

  int vocabularySize() const override { return vocabularySize_; }
  bool canTrim() const override { return true; }
  void decode(const Batch& batch) override;
  int reusedGraphs() const override { return reusedGraphs_; }
  int mixedTokens() const override { return steady_ ? mixedOf(slots_) : 0; }
  const float* logits(int row) const override;
  bool samples() const override { return draws_; }
  Drawn sampled(int row) const override { return drawn_[static_cast<size_t>(row)]; }
  uint64_t copiedBytes() const override { return copiedBytes_; }
  void copy(int from, int to) override;
  void trim(int slot, int length) override;
  void clear() override;
  void loadAdapter(const std::string& path) override;
  void swapAdapter() override;
  void dropAdapter() noexcept override { beside_ = {}; }
  void sleep(bool weights) override;
  void wake(int slots) override;
  void warmUp() override;
  void setThreads(int threads) override;
  void abort() override { aborted_ = true; }

 private:
  /** As llama.cpp's: cells of a buffer, and of a window on a CPU. */
  static constexpr int kCellStep = 256;
  /** Spans of a pass. With more, which is rare, a batch is several passes. */
  static constexpr int kMostSpans = 16;

  static int roundUp(int number, int step) { return (number + step - 1) / step * step; }

  struct Adapter {
    /** "" for none. */
    std::string path;
    /** Null for none, and while the decoder sleeps without weights. */
    std::unique_ptr<OwnAdapter> factors;
  };
  /** A row of a pass, and of the batch: -1 where it only fills the shape. */
  struct PassRow {
    int row;
    int slot;
    int position;
  };
  struct Pass {
    PassShape shape;
    std::vector<PassRow> rows;
    /** Of `rows`: those that have logits. */
    std::vector<int> wanted;
    /** Whether any of these is read. */
    bool reads = false;
    /** The slot of a prompt that is evaluated in `staging`; else -1. */
    int staged = -1;
  };

  void allocate(int slots);
  void reserve();
  void use(const Adapter& adapter);
  static int mixedOf(int slots);
  int staging() const { return memory_.slots - 2; }
  Pass takePass(const Batch& batch, int& row) const;
  bool takeGrid(const Batch& batch, Pass& pass) const;
  void finish(Pass& pass) const;
  void fill(Pass& pass, int rows) const;
  void capture();
  int windowOf(int cells) const;
  OwnGraph& graphOf(const PassShape& shape);
  void evaluate(const Batch& batch, const Pass& pass);
  void copyCells(int from, int to, int first, int count);
  void compute(ggml_cgraph* graph);
  void allocateGraph(OwnGraph& graph);
  /** No graph is used again. */
  void forget() {
    graphs_.clear();
    lately_.clear();
  }
  void take(const Batch& batch, const Pass& pass, OwnGraph& graph);

  const LibLlama& lib_;
  const std::shared_ptr<OwnWeightsFile> file_;
  const ModelInfo info_;
  const LlamaSettings settings_;
  const bool steady_;
  int threads_;
  int slots_;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> kvBytes_{0};
  bool warm_[2] = {false, false};
  mutable std::mutex reportMutex_;
  std::map<std::string, BufferBytes> buffers_;
  std::string whyHost_;
  bool draws_ = false;

  // Of the last batch.
  std::vector<float> logits_;
  /** The row of `logits_` of each row of the batch, -1 for none. */
  std::vector<int> logitRows_;
  std::vector<Drawn> drawn_;
  int reusedGraphs_ = 0;
  uint64_t copiedBytes_ = 0;

  Adapter adapter_;
  /** The second adapter, between `loadAdapter` and `dropAdapter`. */
  Adapter beside_;

  // Objects of ggml. They are freed in reverse order, also when the constructor throws.
  HeldPool pool_;
  Held<ggml_backend> backend_;
  ggml_backend_buffer_type_t place_;
  std::shared_ptr<const OwnWeights> weights_;
  const int vocabularySize_;
  /** While there was an adapter since the weights were loaded. */
  std::unique_ptr<AdapterRoom> room_;
  /** Cells of each slot that were written and not taken back. */
  std::vector<int> lengths_;
  /** Whose first cells `staging` has; -1 where that is not known. */
  int staged_ = -1;
  OwnMemory memory_;
  Held<ggml_context> memoryContext_;
  /** Null while it sleeps. */
  Held<ggml_backend_buffer> memoryBuffer_;
  /** Without memory: it tells what a graph needs. */
  Held<ggml_gallocr> measure_;
  /** One for all graphs, which are evaluated one at a time. Where it grows they are forgotten: they have addresses in it. */
  Held<ggml_gallocr> allocator_;
  /** Bytes of its buffer for the largest pass of each kind. */
  size_t reserved_ = 0;
  struct Cached {
    std::unique_ptr<OwnGraph> graph;
    std::list<std::vector<int>>::iterator used;
  };
  std::map<std::vector<int>, Cached> graphs_;
  /** Of the graphs, the last used first. */
  std::list<std::vector<int>> lately_;
};

}  // namespace hone
