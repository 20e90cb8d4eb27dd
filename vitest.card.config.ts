import { defineConfig } from "vitest/config";

/** `yarn test:card`, which builds the null card. */
export default defineConfig({
  test: {
    include: ["test/**/*.card.test.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    maxWorkers: 2,
    testTimeout: 900_000,
    hookTimeout: 900_000,
  },
});
