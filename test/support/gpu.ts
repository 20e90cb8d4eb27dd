/** The device of `yarn test:gpu`, shared by the tests. */
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";

const backend = process.env.GPU_TEST_BACKEND;
if (backend !== "cuda" && backend !== "vulkan")
  throw new Error("tests on a GPU run by `yarn test:gpu`, which finds one");

export const gpu = {
  backend,
  name: process.env.GPU_TEST_NAME ?? "",
  /** llvmpipe: a kernel takes up to a minute to compile, and there is one for each number of rows up to 8. */
  software: process.env.GPU_TEST_SOFTWARE === "1",
} as const;

/**
 * Settings that need few kernels: two sequences decode 1 or 2 rows, prompts of the tests have more than 8, and of the
 * matrix products for those only the one for up to 32 rows is used.
 */
export const few = {
  gpu: backend,
  threads: 1,
  sequences: 2,
  ubatch: 32,
} as const satisfies Partial<LocalEngineOptions>;

/** Bytes of the device in use. Not of llvmpipe's: its memory is this process's, and what is free of it is the whole system's. */
export function held(engine: LocalEngine): number {
  const [device] = engine.memory().devices;
  return device ? device.totalBytes - device.freeBytes : Number.NaN;
}
