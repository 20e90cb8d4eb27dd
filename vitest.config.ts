import { defineConfig } from "vitest/config";

/** Slower tests: `yarn test --full` has them, too. */
const full = process.env.TEST_FULL ? "" : ",full";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    exclude: [`test/**/*.{gpu,card,vllm,long${full}}.test.ts`],
    // Tests wait for processes and clocks half of their time; Vitest would leave one core out.
    maxWorkers: "100%",
    // For what hangs. A slow or busy machine is no failure: nothing that is timed is a test.
    testTimeout: 600_000,
    hookTimeout: 900_000,
  },
});
