import { describe, expect, it } from "vitest";
import { withFreeChanges } from "../../src/machine/plan/fit.js";
import type { PlanInput, Served } from "../../src/machine/plan/input.js";
import { type PlacePlan, planMemory, sumOf } from "../../src/machine/plan/memory.js";
import { input, qwen } from "./support.js";

const served = (own: Served["own"], more: Partial<PlanInput> = {}) => ({ ...input, served: { own }, ...more });
const bytes = (rows: PlacePlan["playing"], name: string) => sumOf(rows.filter((row) => row.name.startsWith(name)));
const GIB = 2 ** 30;

describe("the memory plan of rollouts on vLLM servers", () => {
  it("leaves out those that somebody else runs, and counts the weights that hone compares them with", () => {
    const { host, gpu } = planMemory(served(null));
    expect(bytes(host.playing, "vLLM")).toBe(0);
    expect(bytes(host.playing, "engine: weights")).toBe(qwen.bytes);
    expect(gpu).toBeNull();
  });

  it("counts hone's own on a CPU in f32, while the learner computes only where it stays", () => {
    const { host } = planMemory(served({ rests: "stays", gpu: 0 }));
    expect(bytes(host.playing, "vLLM: weights")).toBe(4 * qwen.parameters);
    // 24 kB a token in f32, rounded up to whole GiB.
    expect(bytes(host.playing, "vLLM: KV")).toBe(GIB * Math.ceil((16 * 8193 * 24_576) / GIB));
    expect(bytes(host.learning, "vLLM")).toBe(bytes(host.playing, "vLLM"));
    expect(bytes(planMemory(served({ rests: "stops", gpu: 0 })).host.learning, "vLLM")).toBe(0);
  });

  it("counts its share of a card, and its weights in main memory while it sleeps", () => {
    const { host, gpu } = planMemory(served({ rests: "sleeps", gpu: 40e9 }, { gpu: "cuda" }));
    expect(bytes(gpu?.playing ?? [], "vLLM")).toBe(40e9);
    expect(bytes(gpu?.learning ?? [], "vLLM")).toBeLessThan(5e9);
    expect(bytes(host.learning, "vLLM: weights")).toBe(qwen.bytes);
  });

  it("ends it between updates where it does not fit beside the learner", () => {
    const wanted = served({ rests: "stays", gpu: 0 });
    const stopped = served({ rests: "stops", gpu: 0 });
    const room = { host: planMemory(stopped).host.peak, gpu: 0 };
    const none = { concurrency: false, gradientCheckpointing: false };
    expect(withFreeChanges(wanted, none, room).served?.own?.rests).toBe("stops");
    expect(withFreeChanges(wanted, none, { host: planMemory(wanted).host.peak, gpu: 0 }).served?.own?.rests).toBe(
      "stays",
    );
  });
});
