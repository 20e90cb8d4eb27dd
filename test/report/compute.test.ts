import { describe, expect, it } from "vitest";
import type { EngineCompute } from "../../src/core/engine/engine.js";
import type { LearnerInfo } from "../../src/core/learn/types.js";
import { engineFacts, engineKinds, engineText, learnerFacts, learnerText } from "../../src/machine/compute.js";
import { onVulkan } from "../support/compute.js";

const compute = onVulkan;
const trainedContext = 4096;
const plain = { trainedContext, lanes: 1, threads: 1, ubatch: 512, llamaVersion: "0.5.0" };

describe("the line on the engine", () => {
  it("names the device, the layers there, the numbers' types and llama.cpp", () => {
    expect(engineText({ compute, ...plain })).toBe(
      "engine: Vulkan, llvmpipe (LLVM 15.0.6, 256 bits): 5 of 5 layers there, F16 weights, F16 KV, 1 thread, llama.cpp 0.5.0",
    );
    expect(engineText({ compute: { ...compute, flashAttention: true }, ...plain })).toContain(
      "F16 KV, flash attention, 1 thread, llama.cpp",
    );
    expect(engineText({ compute, ...plain, lanes: 2, threads: 4, ubatch: 2048 })).toContain(
      "F16 KV, 2 lanes, 4 threads, passes of 2048 tokens, llama.cpp",
    );
    expect(engineFacts({ compute, ...plain })).toEqual({ kind: "llama.cpp", ...compute, ...plain });
  });

  it("names vLLM, its servers, and the type of adapters that they round", () => {
    const served = { ...compute, device: "vLLM 0.32.0" };
    const servers = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"];
    const line = "engine: vLLM 0.32.0 at http://127.0.0.1:8000 and http://127.0.0.1:8001";
    expect(engineText({ compute: served, servers })).toBe(line);
    expect(engineText({ compute: { ...served, adapters: "BF16" }, servers })).toBe(`${line}, adapters in BF16`);
    expect(engineFacts({ compute: served, trainedContext, servers })).toEqual({
      kind: "vllm",
      ...served,
      trainedContext,
      servers: 2,
    });
  });

  it("says which kinds have played a run", () => {
    const engine = { part: "engine" as const, seen: "2026-01-01T00:00:00Z", kind: "llama.cpp" };
    expect(engineKinds([{ ...engine, part: "learner" }])).toEqual([]);
    expect(engineKinds([engine, engine])).toEqual(["llama.cpp"]);
    expect(engineKinds([engine, { ...engine, kind: "vllm" }])).toEqual(["llama.cpp", "vllm"]);
  });

  it("warns of layers that stayed on the CPU, with the reason and what helps", () => {
    const text = engineText({ compute: { ...compute, offloadedLayers: 3 }, ...plain });
    const [line, warning, remedy, ...rest] = text.split("\n");
    expect(line).toContain("3 of 5 layers there");
    expect(warning).toMatch(/^warning: 2 of the model's 5 layers are computed by the CPU, for want of memory on /);
    expect(remedy).toContain("--concurrency");
    expect(rest).toEqual([]);
  });

  it("counts no layers where the CPU was meant", () => {
    const cpu: EngineCompute = { ...compute, backend: "cpu", device: "AMD EPYC", offloadedLayers: 0 };
    expect(engineText({ compute: cpu, ...plain })).toBe(
      "engine: CPU, AMD EPYC: F16 weights, F16 KV, 1 thread, llama.cpp 0.5.0",
    );
  });
});

describe("the line on the learner", () => {
  const info: LearnerInfo = {
    backend: "peft",
    device: "cpu",
    offloaded: false,
    cuda: null,
    precision: "f32",
    architecture: "qwen2",
    weights: "f16",
    blocks: false,
    parameters: { total: 2, trainable: 1 },
    versions: { python: "3.12.1", torch: "2.13.0", peft: "1" },
    updates: 0,
    seconds: 1,
  };
  const card = {
    ...info,
    device: "NVIDIA H100 80GB HBM3",
    precision: "bf16" as const,
    cuda: { version: "13.0", driver: "580.95.05" },
  };

  it("names the device, the precision and PyTorch, and on CUDA its version and the driver's", () => {
    expect(learnerText(info)).toBe("learner: cpu, f32, PyTorch 2.13.0");
    const versions = { ...info.versions, unsloth: "2026.10.9" };
    expect(learnerText({ ...info, backend: "unsloth", versions })).toBe(
      "learner: cpu, f32, Unsloth 2026.10.9, PyTorch 2.13.0",
    );
    expect(learnerText(card)).toBe("learner: NVIDIA H100 80GB HBM3, bf16, PyTorch 2.13.0, CUDA 13.0, driver 580.95.05");
    expect(learnerText({ ...card, cuda: { version: "13.0", driver: null } })).toMatch(/CUDA 13\.0$/);
  });

  it("says that weights stay quantised, where they do", () => {
    expect(learnerText({ ...info, weights: "q4_k", blocks: true })).toBe(
      "learner: cpu, f32, weights kept in q4_k, PyTorch 2.13.0",
    );
  });

  it("says that the model leaves the card, where it does", () => {
    expect(learnerText({ ...card, offloaded: true })).toMatch(/, in main memory between updates$/);
    expect(learnerText({ ...info, offloaded: true })).toBe("learner: cpu, f32, PyTorch 2.13.0");
  });

  it("says how many ranks compute, where there are several", () => {
    expect(learnerText({ ...info, ranks: 4 })).toBe("learner: cpu, f32, PyTorch 2.13.0, 4 ranks");
    expect(learnerText({ ...info, ranks: 1 })).toBe("learner: cpu, f32, PyTorch 2.13.0");
  });

  it("has the same facts for the run", () => {
    expect(learnerFacts(card)).toEqual({
      backend: "peft",
      device: "NVIDIA H100 80GB HBM3",
      precision: "bf16",
      cuda: { version: "13.0", driver: "580.95.05" },
      offloaded: false,
      python: "3.12.1",
      torch: "2.13.0",
    });
  });
});
