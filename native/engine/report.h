// Facts about loading a model and creating a context, parsed from the lines that llama.cpp logs: its public functions
// do not give them. Independent of llama.cpp, so that it can be tested alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hone {

/** Bytes of llama.cpp's buffers in one place, to the 0.01 MiB of its log. */
struct BufferBytes {
  uint64_t weights = 0;
  uint64_t adapters = 0;
  uint64_t kv = 0;
  uint64_t compute = 0;
  /** For logits transferred to the host. */
  uint64_t output = 0;
};

struct LlamaReport {
  /** ggml's name of the GPU, "CUDA0"; "" for none. */
  std::string device;
  /** Counts the output layer as one; -1: unknown. */
  int offloadedLayers = -1;
  int layers = -1;
  /** -1: unknown. */
  int flashAttention = -1;
  /** How adapters are rounded, as engineNumerics has it; "" where they are not. */
  std::string adapters;
  /** By the name of the buffer's kind: "CUDA0", "CUDA_Host", "CPU" ... */
  std::map<std::string, BufferBytes> buffers;
};

/**
 * Adds the facts in a line without its line break, if there are any. Sizes of one kind and place add up:
 * start with a new report, or clear that member, before llama.cpp allocates these buffers again.
 */
void hear(LlamaReport& report, const std::string& line);

/** Adds the buffers of `more` to those of `sum`. */
void addBuffers(std::map<std::string, BufferBytes>& sum, const std::map<std::string, BufferBytes>& more);

/** While it exists, it receives the lines that llama.cpp logs on this thread. */
class Listening {
 public:
  explicit Listening(LlamaReport& report);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  /** The report of this thread's innermost scope; null for none. */
  static LlamaReport* current();

 private:
  LlamaReport* const outer_;
};

}  // namespace hone
