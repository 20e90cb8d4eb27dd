// What llama.cpp did when it loaded a model and made a context, read from the lines that it logs: its public functions
// do not tell. Knows nothing of llama.cpp, so that it can be tested alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hone {

/** Bytes of llama.cpp's buffers in one place, to the hundredth of a MiB in which it logs them. */
struct BufferBytes {
  uint64_t weights = 0;
  uint64_t adapters = 0;
  uint64_t kv = 0;
  uint64_t compute = 0;
  /** Logits on their way to the host. */
  uint64_t output = 0;
};

struct LlamaReport {
  /** ggml's name of the GPU, "CUDA0"; "" for none. */
  std::string device;
  /** Counting the output layer as one; -1: not said. */
  int offloadedLayers = -1;
  int layers = -1;
  /** -1: not said. */
  int flashAttention = -1;
  /** By the name of the buffer's kind: "CUDA0", "CUDA_Host", "CPU" ... */
  std::map<std::string, BufferBytes> buffers;
};

/**
 * Adds what a line without its line break says, if it says anything of the above. Sizes of one kind and place add up:
 * start with a new report, or empty that member, before llama.cpp makes these buffers again.
 */
void hear(LlamaReport& report, const std::string& line);

/** Adds the buffers of `more` to those of `sum`. */
void addBuffers(std::map<std::string, BufferBytes>& sum, const std::map<std::string, BufferBytes>& more);

/** While it lives, the lines that llama.cpp logs on this thread are heard. */
class Listening {
 public:
  explicit Listening(LlamaReport& report);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  /** The report of this thread's innermost; null for none. */
  static LlamaReport* current();

 private:
  LlamaReport* const outer_;
};

}  // namespace hone
