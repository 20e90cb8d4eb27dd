/** What is installed for whom: pyproject.toml, as requirements.lock has it. */
import { describe, expect, it } from "vitest";
import { declaredIndex, locked, pinned, pythonVersions } from "../../src/machine/python/declared.js";

const names = (...extras: string[]) => locked(extras).map(({ name }) => name);
/** As pip compares names. */
const normal = (name: string) => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

describe("the packages of the learner", () => {
  it("are locked in the version that is asked for, each file by its hash", () => {
    const versions = new Map(locked(["base"]).map(({ name, version }) => [name, version]));
    for (const [name, version] of pinned()) expect([name, versions.get(normal(name))]).toEqual([name, version]);
    for (const { name, text } of locked(["base"])) expect(text, name).toMatch(/--hash=sha256:[0-9a-f]{64}/);
  });

  it("are no package of NVIDIA's: these are of the build for CUDA 13", () => {
    expect(names("base").filter((name) => name.startsWith("nvidia-") || name === "triton")).toEqual([]);
    expect(names("cuda13")).toEqual(expect.arrayContaining(["nvidia-cudnn-cu13", "triton"]));
    expect(names("cpu", "cuda12")).toEqual([]);
  });

  it("are not locked a second time for an extra", () => {
    const all = names("base", "cuda13", "unsloth", "unsloth-cpu", "trackers", "dev", "vllm");
    const base = new Set(names("base"));
    expect(names("unsloth", "trackers", "dev", "vllm").filter((name) => base.has(name))).toEqual([]);
    expect(all).toEqual(expect.arrayContaining([...base]));
  });
});

describe("an extra", () => {
  it.each(["unsloth-cpu", "trackers", "dev"])("%s has what it asks for", (extra) => {
    const there = new Map(locked([extra, "base"]).map(({ name, version }) => [name, version]));
    for (const [name, version] of pinned(extra)) expect([name, there.get(normal(name))]).toEqual([name, version]);
  });

  it("for Unsloth on a CPU leaves out what only a GPU's path imports", () => {
    expect(names("unsloth")).toEqual(expect.arrayContaining(names("unsloth-cpu")));
    const gpu = ["torchvision", "diffusers", "xformers"];
    expect(names("unsloth")).toEqual(expect.arrayContaining(gpu));
    expect(names("unsloth-cpu").filter((name) => gpu.includes(name))).toEqual([]);
  });

  it("for vLLM asks for another PyTorch than the learner's nowhere", () => {
    expect(names("vllm")).toContain("vllm");
    expect(names("vllm")).not.toContain("torch");
  });
});

it("PyTorch's indexes and the versions of Python are declared", () => {
  expect(declaredIndex("cpu")).toMatch(/^https:.*\/cpu$/);
  expect(declaredIndex("cuda12")).toMatch(/^https:.*\/cu126$/);
  expect(declaredIndex("cuda13")).toBeUndefined();
  expect(pythonVersions()).toBe(">=3.10,<3.15");
});
