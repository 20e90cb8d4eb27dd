// The main of llama-batched-bench, with one difference to its own: it waits until the log, which is where the results
// go, has been written. On a busy machine the process otherwise ends first.
#include "log.h"

int llama_batched_bench(int argc, char **argv);

int main(int argc, char **argv) {
  const int result = llama_batched_bench(argc, argv);
  common_log_flush(common_log_main());
  return result;
}
