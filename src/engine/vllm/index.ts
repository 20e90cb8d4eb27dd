/** Engines over vLLM servers. */
export { joinOptions, noServer, openVllm, outageOf, type VllmEngine } from "./engine.js";
export { VLLM_VERSION } from "./protocol.js";
