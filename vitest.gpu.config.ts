import { defineConfig } from "vitest/config";

/** `yarn test:gpu`, which says in the environment which device there is. */
export default defineConfig({
  test: {
    include: ["test/**/*.gpu.test.ts"],
    globalSetup: ["test/support/gpu-kernels.ts"],
    setupFiles: ["test/support/environment.ts"],
    // One device, and a kernel is compiled by whoever needs it first.
    maxWorkers: 1,
    // The first test that needs a kernel waits for its compilation, on a busy machine too.
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
  },
});
