/** The type of the adapter that the learner computed with, beside the engine's. */
import { expect, it } from "vitest";
import { checkAdapterType } from "../../src/guards/mismatch.js";

const numerics = (adapters = "") => ({ numerics: { engine: `cpu CPU f16 KV f16${adapters}`, hfWeights: false } });

it("is that in which the engine plays it", () => {
  checkAdapterType({ adapterTypes: ["f32"] }, numerics());
  checkAdapterType({ adapterTypes: ["bf16"] }, numerics(" flash attention adapters BF16"));
  // Numbers that 16 bits have too.
  checkAdapterType({ adapterTypes: ["f32", "f16"] }, numerics(" adapters F16"));
  checkAdapterType({ adapterTypes: ["bf16-a"] }, numerics(" adapters BF16-A"));
  // A rank that has no files says nothing.
  checkAdapterType({}, numerics());
});

it("is refused where it is another", () => {
  expect(() => checkAdapterType({ adapterTypes: ["bf16"] }, numerics())).toThrow(
    "the learner computed with an adapter of bf16 numbers, and the engine plays it in f32",
  );
  expect(() => checkAdapterType({ adapterTypes: ["f32"] }, numerics(" adapters F16"))).toThrow("plays it in f16");
  expect(() => checkAdapterType({ adapterTypes: ["bf16"] }, numerics(" adapters BF16-A"))).toThrow(
    "plays it in bf16-a",
  );
});
