/** Engines over vLLM servers. */
export { joinOptions, openVllm, outagesOf, type VllmEngine } from "./engine.js";
export { VLLM_VERSION } from "./protocol.js";
