import { defineConfig } from "vitest/config";
import { longestFirst } from "./test/support/longest-first.js";

const FIRST = ["hour.full", "updates-blocks", "updates", "update-memory", "train", "doctor-lacking", "updates-unsloth"];

/** `yarn test:card`, which builds the null card. */
export default defineConfig({
  test: {
    include: ["test/**/*.card.test.ts"],
    // `yarn test:card --full` has them, too.
    exclude: process.env.TEST_FULL ? [] : ["test/**/*.full.card.test.ts"],
    sequence: { sequencer: longestFirst(FIRST.map((name) => `${name}.card`)) },
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    maxWorkers: 2,
    testTimeout: 900_000,
    expect: { poll: { timeout: 300_000 } },
    hookTimeout: 900_000,
  },
});
