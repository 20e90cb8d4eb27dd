// Which tokens the next batch evaluates: for each running sequence its next token, or a piece of its prompt; and padding
// tokens, which only give the batch its shape: they close gaps between slots, or repeat an earlier shape.
//
// Two settings choose the padding. Without a pool (SchedulerSettings::pooled) the tokens of neighbouring slots make a
// pass, so gaps are closed; in a pool a batch is one pass in any case. With `steady` shapes are few in both.
#pragma once

#include <map>
#include <vector>

#include "decoder.h"
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
      : settings_(settings), decoder_(decoder), slots_(slots), sequences_(sequences), stats_(stats) {}

  /** Makes the batch of these sequences, one or more, in ascending order of slots. Records its tokens as cells. */
  void plan(const std::vector<Sequence*>& running);

  // Of the last plan:
  Batch& batch() { return batch_; }
  /** Rows whose logits are read, in the order of the batch. */
  std::vector<LogitRow>& rows() { return rows_; }
  /** Slots that were given a padding token, which is no cell of theirs. */
  const std::vector<int>& filled() const { return filled_; }

 private:
  int promptRoom(int shape) const;
  int takeOf(const Sequence& sequence, int& prompt, int& outputs) const;
  void addRows(Sequence& sequence, int take);
  int steadySlots(const std::vector<Sequence*>& running);
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
  HeldShape outputShape_;
};

}  // namespace hone
