import { describe, expect, it } from "vitest";
import { checkEngineChoice, type EngineChoice } from "../../src/machine/play/engine-choice.js";

const vllm: EngineChoice = {
  engine: "vllm",
  engineUrl: undefined,
  engineAdapters: undefined,
  enginePython: undefined,
  engineMemory: 0.5,
  gpu: "off",
  device: undefined,
  threads: undefined,
  home: "home",
  python: undefined,
};
const local: EngineChoice = { ...vllm, engine: "llama.cpp" };

describe("the options of an engine", () => {
  it.each<[Partial<EngineChoice>, EngineChoice, string]>([
    [{ engineUrl: ["http://127.0.0.1:8000"] }, local, "--engine-url is for --engine vllm"],
    [{ engineAdapters: "shared" }, local, "--engine-adapters is for --engine vllm"],
    [{ enginePython: "python" }, local, "--engine-python is for --engine vllm"],
    [{ releaseWeights: true }, vllm, "--release-weights is for --engine llama.cpp"],
    [{ engineUrl: ["127.0.0.1:8000"] }, vllm, "give the address of a vLLM server alone"],
    [{ engineUrl: ["http://127.0.0.1:8000/v1"] }, vllm, "give the address of a vLLM server alone"],
    [{ engineUrl: ["http://name:password@127.0.0.1:8000"] }, vllm, "give the address of a vLLM server alone"],
    [{ engineUrl: ["http://h:1", "http://h:1/"] }, vllm, "http://h:1 is there twice"],
    [{ engineUrl: ["http://h:1"], enginePython: "python" }, vllm, "--engine-python is for a server that hone starts"],
  ])("%j are refused where they mean nothing", (given, choice, message) => {
    expect(() => checkEngineChoice({ ...choice, ...given })).toThrow(message);
  });

  it("are taken together where they do", () => {
    checkEngineChoice({ ...vllm, engineUrl: ["http://127.0.0.1:8000", "http://h:8000/"], engineAdapters: "shared" });
    checkEngineChoice({ ...local, releaseWeights: true });
  });
});
