// The settings of a scheduler. Plain data.
#pragma once

namespace hone {

struct SchedulerSettings {
  /** Maximum: a scheduler may wake with fewer. */
  int slots = 1;
  /** Maximum number of tokens of a sequence. */
  int contextPerSlot = 0;
  /** Maximum number of tokens of one decode call, at least one per slot. */
  int batch = 2048;
  /**
   * Maximum number of prompt tokens in one decode call: running turns wait for these. In a pool they are one pass with a row
   * of each running sequence.
   */
  int promptBatch = 512;
  /** Maximum number of rows of logits of one decode call, more than `slots`; reduced by as many as the slots are. */
  int outputs = 64;
  /**
   * llama.cpp makes a pass over the weights for each run of neighbouring slots. A gap of up to this many idle slots
   * is closed by evaluating a token for them too, which is cheaper than another pass.
   */
  int fillGap = 0;
  /** Maximum number of tokens of one pass over the weights. */
  int ubatch = 512;
  /**
   * The KV of all slots is one pool: a batch is one pass whichever slots it has, so that no slots are moved together
   * and no gaps closed.
   */
  bool pooled = false;
  /**
   * Pads batches to a few shapes, and evaluates prompts in batches of their own, but for their last tokens: llama.cpp then
   * reuses the graph of the previous batch, and CUDA replays it. Useful where a row is cheap compared with building a graph: on a GPU.
   */
  bool steady = false;
  int samplingThreads = 1;
  /** CPU threads the decoder was made with. */
  int threads = 1;
  /** Milliseconds that a batch should take at most, where it has tokens of prompts. */
  int batchMs = 1000;
  /** Milliseconds a sequence may be idle while others wait for a slot. */
  int restMs = 1000;
};

}  // namespace hone
