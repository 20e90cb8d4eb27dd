/** The facts about an engine on a software GPU. */
import type { EngineCompute } from "../../src/core/engine/engine.js";

export const onVulkan: EngineCompute = {
  backend: "vulkan",
  device: "llvmpipe (LLVM 15.0.6, 256 bits)",
  offloadedLayers: 5,
  layers: 5,
  weights: "F16",
  kv: "F16",
  flashAttention: false,
  sampling: "host",
};
