import { defineConfig } from "vitest/config";

/** `yarn test:vllm`: tests on the real vLLM, which takes the memory of a server or two. */
export default defineConfig({
  test: {
    include: ["test/**/*.vllm.test.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    maxWorkers: 1,
    testTimeout: 1_800_000,
    expect: { poll: { timeout: 300_000 } },
    hookTimeout: 1_800_000,
  },
});
