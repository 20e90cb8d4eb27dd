// The runtime's interface: streams, events, and graphs. All is done when a call returns, so events have always happened.
#include <cuda_runtime_api.h>
#include <atomic>
#include <cstring>
#include "null_card.h"
#include "runtime.h"

using namespace null_card;

namespace {

std::atomic<uintptr_t> handles{0x100000};
template <class Handle> cudaError_t made(Handle* handle) { return *handle = (Handle)(handles += 16), cudaSuccess; }

struct Graph {
  Work work;
};

} // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return made(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return made(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return made(stream); }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { return *priority = 0, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return synchronised("cudaStreamSynchronize"), cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return made(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return made(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return synchronised("cudaEventSynchronize"), cudaSuccess; }
// Not zero: programs divide by it.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) { return *milliseconds = 0.01f, cudaSuccess; }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) { return begin_capture(stream), cudaSuccess; }
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = (cudaGraph_t) new Graph{end_capture(stream)};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  if (id) *id = 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  *runnable = (cudaGraphExec_t) new Graph{*(Graph*)graph};
  return count("graph instantiates"), cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(runnable, graph, flags);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t runnable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
  *(Graph*)runnable = *(Graph*)graph;
  if (result) memset(result, 0, sizeof *result);
  return count("graph updates"), cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t) {
  count("graph launches");
  const Work& work = ((Graph*)runnable)->work;
  count("kernels in launched graphs", work.launches);
  count(work);
  occupy(work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete (Graph*)graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) { return delete (Graph*)runnable, cudaSuccess; }

} // extern "C"
