import { defineConfig } from "vitest/config";

/** `yarn test:long`: tests that take minutes. */
export default defineConfig({
  test: {
    include: ["test/**/*.long.test.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    testTimeout: 1_800_000,
    expect: { poll: { timeout: 300_000 } },
    hookTimeout: 300_000,
  },
});
