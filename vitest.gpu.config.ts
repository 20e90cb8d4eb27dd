import { defineConfig } from "vitest/config";

/** `yarn test:gpu`, which says in the environment which device there is. */
export default defineConfig({
  test: {
    include: ["test/**/*.gpu.test.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    // Files share a card and its memory, so one after the other there. A software GPU is each process's own, and compiles
    // kernels on one core.
    maxWorkers: process.env.GPU_TEST_SOFTWARE === "1" ? 2 : 1,
    // The first test that needs a kernel waits for its compilation, on a busy machine too.
    testTimeout: 1_800_000,
    expect: { poll: { timeout: 300_000 } },
    hookTimeout: 1_800_000,
  },
});
