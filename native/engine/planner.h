// Which tokens the next batch evaluates: for each running sequence its next token, or a piece of its prompt; and padding
// tokens, which only give the batch its shape: they close gaps between slots, or repeat an earlier shape.
//
// With `steady` shapes a prompt's tokens but its last have passes of their own, without logits, beside those of one token a
// sequence. On CUDA a pass that repeats the shape of the one before is replayed as a graph (ggml-cuda.cu,
// ggml_backend_cuda_graph_compute): kernels are launched together. llama.cpp keeps what it computes with and without logits
// apart (llama_context::get_gf_res_prev), and so does CUDA, which finds a graph by the address of its first node: prompts
// without logits leave the other graph as it is, prompts in the same pass would not.
//
// A decoder whose passes have few shapes whatever they mix (Decoder::mixedTokens) has long prompts alone, and pieces of others beside
// the next token of every sequence.
//
// Two settings choose the padding. Without a pool (SchedulerSettings::pooled) the tokens of neighbouring slots make a
// pass, so gaps are closed; in a pool a batch is one pass in any case. With `steady` shapes are few in both.
#pragma once

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "decoder.h"
#include "pace.h"
#include "sequence.h"
#include "settings.h"
#include "shape.h"
#include "slots.h"

namespace hone {

class Planner {
 public:
  /** `prefilled` of the statistics counts here. All references outlive the planner. */
  Planner(const SchedulerSettings& settings, const Decoder& decoder, Slots& slots,
          const std::map<SequenceId, Sequence>& sequences, Stats& stats)
      : settings_(settings),
        decoder_(decoder),
        slots_(slots),
        sequences_(sequences),
        stats_(stats),
        pace_(settings.promptBatch, std::chrono::milliseconds(settings.batchMs)) {}

  /** Makes the batch of these sequences, one or more, in ascending order of slots. Records its tokens as cells. */
  void plan(const std::vector<Sequence*>& running);

  // Of the last plan:
  Batch& batch() { return batch_; }
  /** Rows whose logits are read, in the order of the batch. */
  std::vector<LogitRow>& rows() { return rows_; }
  /** Told how long it took; this is counted as time of the turns that it evaluated. */
  void took(Clock::duration time);
  /** It has prompts without their last tokens, so that no logits are read. */
  bool promptsAlone() const { return rows_.empty(); }
  /** Slots that were given a padding token, which is no cell of theirs. */
  const std::vector<int>& filled() const { return filled_; }

  /** Whether a gap at this slot can be closed by a padding token. */
  bool fillable(int slot) const;
  /**
   * Slots that suffice from the next batch on if its sequences move together, where their shape has just shrunk to these; all
   * where it has not. Asked once.
   */
  int takeShrunk() { return std::exchange(shrunk_, kAll); }

 private:
  bool planPrompts(const std::vector<Sequence*>& running);
  void planTokens(const std::vector<Sequence*>& running);
  void planMixed(const std::vector<Sequence*>& running);
  int promptRoom(int shape, int alone) const;
  int takeOf(const Sequence& sequence, int& prompt, int& outputs) const;
  void addRows(Sequence& sequence, int take);
  int steadySlots(const std::vector<Sequence*>& running);
  int leastSlots(const std::vector<Sequence*>& running) const;
  int pooledRows(const std::vector<Sequence*>& running);
  void fillGap(int from, int to);
  void fill(int slot);
  void pad(int shape);

  const SchedulerSettings& settings_;
  const Decoder& decoder_;
  Slots& slots_;
  const std::map<SequenceId, Sequence>& sequences_;
  Stats& stats_;
  Batch batch_;
  std::vector<LogitRow> rows_;
  std::vector<int> filled_;
  /** Sequences that have tokens in the batch. */
  std::vector<Sequence*> evaluated_;
  /** Of prompts, beside the next token of every sequence. */
  int mixedTokens_ = 0;
  Pace pace_;
  HeldShape outputShape_;
  static constexpr int kAll = std::numeric_limits<int>::max();
  int shrunk_ = kAll;
  /** Of prompts, evaluated since the last batch with a token of every sequence. */
  int promptTokens_ = 0;
};

}  // namespace hone
