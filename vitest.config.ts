import { defineConfig } from "vitest/config";

/** Tests of published models' shapes, which take minutes: `yarn test --models` has them, too. */
const models = process.env.TEST_MODELS ? "" : ",models";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/environment.ts"],
    exclude: [`test/**/*.{gpu,long${models}}.test.ts`],
    // Tests wait for processes and clocks half of their time; Vitest would leave one core out.
    maxWorkers: "100%",
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
