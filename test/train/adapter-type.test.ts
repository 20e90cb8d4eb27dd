/** The type of the adapter that the learner computed with, beside the engine's. */
import { expect, it } from "vitest";
import { checkAdapterType } from "../../src/guards/mismatch.js";

const numerics = (adapters = "") => ({ numerics: { engine: `cpu CPU f16 KV f16${adapters}`, hfWeights: false } });

it("is that in which the engine plays it", () => {
  expect(checkAdapterType({ adapterTypes: ["f32"] }, numerics())).toBeUndefined();
  expect(checkAdapterType({ adapterTypes: ["bf16"] }, numerics(" flash attention adapters BF16"))).toBeUndefined();
  // Numbers that 16 bits have too.
  expect(checkAdapterType({ adapterTypes: ["f32", "f16"] }, numerics(" adapters F16"))).toBeUndefined();
  expect(checkAdapterType({ adapterTypes: ["bf16-a"] }, numerics(" adapters BF16-A"))).toBeUndefined();
  // A rank that has no files says nothing.
  expect(checkAdapterType({}, numerics())).toBeUndefined();
});

it("is refused where it is another", () => {
  expect(checkAdapterType({ adapterTypes: ["bf16"] }, numerics())).toMatch(
    "the learner computed with an adapter of bf16 numbers, and the engine plays it in f32",
  );
  expect(checkAdapterType({ adapterTypes: ["f32"] }, numerics(" adapters F16"))).toMatch("plays it in f16");
  expect(checkAdapterType({ adapterTypes: ["bf16"] }, numerics(" adapters BF16-A"))).toMatch("plays it in bf16-a");
});
