// What is read from llama.cpp's log, and the batches that make a GPU compile.
#include <thread>

#include "../report.h"
#include "../warm_up.h"
#include "fixture.h"

namespace hone {
namespace {

constexpr uint64_t kMiB = 1 << 20;

void reportsAreReadFromLines() {
  LlamaReport report;
  for (const char* line : {
           "llama_prepare_model_devices: using device CUDA0 (NVIDIA H100 80GB HBM3) (0000:01:00.0) - 80000 MiB free",
           "load_tensors: offloading output layer to GPU",
           "load_tensors: offloading 24 repeating layers to GPU",
           "load_tensors: offloaded 25/29 layers to GPU",
           "load_tensors:   CPU_Mapped model buffer size =   259.66 MiB",
           "load_tensors:        CUDA0 model buffer size =   942.50 MiB",
           "llama_context:  CUDA_Host  output buffer size =     0.58 MiB",
           "llama_kv_cache:      CUDA0 KV buffer size =    48.00 MiB",
           "llama_kv_cache:      CUDA0 KV buffer size =    16.00 MiB",
           "llama_memory_recurrent:      CUDA0 RS buffer size =     8.00 MiB",
           "resolve_fused_ops: Flash Attention enabled",
           "sched_reserve:      CUDA0 compute buffer size =   298.50 MiB",
           "sched_reserve:  CUDA_Host compute buffer size =     5.76 MiB",
           "llama_adapter_lora_init_impl:      CUDA0 LoRA buffer size =     4.25 MiB",
           "something else = 7.00 MiB",
           "",
       }) {
    hear(report, line);
  }
  CHECK(report.device == "CUDA0" && report.offloadedLayers == 25 && report.layers == 29);
  CHECK(report.flashAttention == 1);
  CHECK(report.buffers.size() == 3);
  const BufferBytes& device = report.buffers.at("CUDA0");
  CHECK(device.weights == 942 * kMiB + kMiB / 2 && device.kv == 72 * kMiB);
  CHECK(device.compute == 298 * kMiB + kMiB / 2 && device.adapters == 4 * kMiB + kMiB / 4 && device.output == 0);
  CHECK(report.buffers.at("CUDA_Host").compute > 5 * kMiB && report.buffers.at("CUDA_Host").output > kMiB / 2);
  CHECK(report.buffers.at("CPU_Mapped").weights > 259 * kMiB);
  hear(report, "resolve_fused_ops: Flash Attention not supported, set to disabled");
  CHECK(report.flashAttention == 0);
  LlamaReport nothing;
  hear(nothing, ": offloaded all layers to GPU");
  hear(nothing, "using device ");
  CHECK(nothing.layers == -1 && nothing.device.empty() && nothing.flashAttention == -1 && nothing.buffers.empty());
}

void onlyTheThreadThatListensHears() {
  CHECK(Listening::current() == nullptr);
  LlamaReport outer, inner;
  const Listening listening(outer);
  {
    const Listening within(inner);
    CHECK(Listening::current() == &inner);
    std::thread([] { CHECK(Listening::current() == nullptr); }).join();
  }
  CHECK(Listening::current() == &outer);
}

/** The fake decoder checks each batch; here it is asked what it evaluated. */
void warmingUpEvaluatesWhatFitsAndLeavesNothing() {
  for (const int slots : {1, 2, 3, 16}) {
    for (const int context : {1, 2, 7, 64}) {
      for (const int prompt : {1, 2, 48, 100}) {
        FakeCounters counters;
        FakeDecoder decoder(slots, context, true, counters);
        const auto evaluate = [&] { evaluateShapes(decoder, {slots, context, prompt, slots + 8}); };
        evaluate();
        // The longest prompt that fits, and then a step of all slots, of one fewer, down to one.
        const int most = std::min(prompt, context);
        const int room = context - std::min(16, most);
        int steps = 0;
        for (int left = slots; left > 0 && steps < room; left = std::min(left - 1, 8)) steps++;
        CHECK(counters.evaluated >= most + steps);
        CHECK(counters.passes >= 1 + steps);
        // All cells are free again.
        Batch batch;
        for (int slot = 0; slot < slots; slot++) batch.add(1, 0, slot, true);
        decoder.decode(batch);
        CHECK(decoder.logits(0)[0] == logitsAfter(stateAfter({1}, 1, 0))[0]);
        decoder.clear();
        counters.fail(Call::decode);
        bool failed = false;
        try {
          evaluate();
        } catch (const std::exception&) {
          failed = true;
        }
        CHECK(failed);
        decoder.decode(batch);
      }
    }
  }
}

}  // namespace

void testReports() {
  runTest("reports are read from lines", reportsAreReadFromLines);
  runTest("only the thread that listens hears", onlyTheThreadThatListensHears);
  runTest("warming up evaluates what fits and leaves nothing", warmingUpEvaluatesWhatFitsAndLeavesNothing);
}

}  // namespace hone
