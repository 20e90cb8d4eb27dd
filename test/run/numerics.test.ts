import { describe, expect, it } from "vitest";
import {
  adapterTypeIn,
  engineNumerics,
  learnerNumerics,
  learnerPart,
  numericsOf,
} from "../../src/core/run/numerics.js";
import { onVulkan } from "../support/compute.js";

const compute = onVulkan;

describe("what rounds a step's numbers", () => {
  it("is engine and learner as they computed", () => {
    const engine = engineNumerics({ compute });
    expect(engine).toBe("vulkan llvmpipe (LLVM 15.0.6, 256 bits) F16 KV F16");
    expect(engineNumerics({ compute: { ...compute, offloadedLayers: 3, flashAttention: true } })).toBe(
      "vulkan llvmpipe (LLVM 15.0.6, 256 bits) 3/5 layers F16 KV F16 flash attention",
    );
    const learner = learnerNumerics({ device: "NVIDIA H100", precision: "bf16" }, true);
    expect(learner).toBe("NVIDIA H100 bf16 with --hf-weights");
    expect(learnerPart(numericsOf(engine, learner))).toBe(learner);
    expect(learnerPart(numericsOf(engine, null))).toBeNull();
  });

  it("names the type of an engine's adapters, which a replay of the step needs", () => {
    const engine = (adapters?: "BF16" | "F16-A") =>
      engineNumerics({ compute: { ...compute, device: "H100, H100", ...(adapters ? { adapters } : {}) } });
    expect(adapterTypeIn(numericsOf(engine("BF16"), "cpu f32"))).toBe("bf16");
    expect(adapterTypeIn(numericsOf(engine("BF16"), null))).toBe("bf16");
    expect(adapterTypeIn(numericsOf(engine("F16-A"), "cuda bf16"))).toBe("f16-a");
    expect(adapterTypeIn(numericsOf(engine(), "cpu bf16"))).toBe("f32");
  });
});
