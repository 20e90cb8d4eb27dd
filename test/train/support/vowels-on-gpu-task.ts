/**
 * The vowels task for a GPU (support/gpu.ts says why): prompts of 23 tokens that differ before their last 11, so that
 * with 9 sampled ones and the end of a turn no batch has 3 to 8 rows, nor more
 * than 32.
 */
import { defineTask } from "hone";
import vowels from "./vowels-task.js";

export default defineTask({
  ...vowels,
  scenarios: () =>
    Array.from({ length: 10 }, (_, i) => ({
      id: `v${i}`,
      split: i < 8 ? ("train" as const) : ("test" as const),
      question: `${i} did they write?`,
    })),
});
