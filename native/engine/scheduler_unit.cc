// One of the addon's three translation units, in which headers are parsed once: what needs neither Node nor llama.cpp. The
// sanitizers compile it too (test/Makefile). Names in anonymous namespaces are therefore unique within a unit.
//
// First, since clang takes no `target_clones` after a use of the function.
#include "vector_math.cc"

#include "admission.cc"
#include "commands.cc"
#include "constraint.cc"
#include "failure.cc"
#include "joint.cc"
#include "lanes.cc"
#include "passes.cc"
#include "planner.cc"
#include "pool.cc"
#include "report.cc"
#include "row_sampler.cc"
#include "sampling.cc"
#include "sampling_trial.cc"
#include "scheduler.cc"
#include "shape.cc"
#include "slots.cc"
#include "step.cc"
#include "warm_up.cc"
