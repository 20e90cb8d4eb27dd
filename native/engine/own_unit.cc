// A translation unit of its own, see scheduler_unit.cc: the graph of hone's own.
#include "gguf_file.cc"
#include "own_adapter.cc"
#include "own_decoder.cc"
#include "own_graph.cc"
#include "own_passes.cc"
#include "own_trial.cc"
#include "own_weights.cc"
