import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest, first: the last one of a run has nothing beside it. */
const FIRST = ["hour.full", "updates-blocks", "updates", "update-memory", "train", "doctor-lacking", "updates-unsloth"];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = FIRST.findIndex((name) => moduleId.endsWith(`/${name}.card.test.ts`));
      return at < 0 ? FIRST.length : at;
    };
    return [...files].sort((a, b) => place(a) - place(b));
  }
}

/** `yarn test:card`, which builds the null card. */
export default defineConfig({
  test: {
    include: ["test/**/*.card.test.ts"],
    // `yarn test:card --full` has them, too.
    exclude: process.env.TEST_FULL ? [] : ["test/**/*.full.card.test.ts"],
    sequence: { sequencer: LongestFirst },
    globalSetup: ["test/support/temporary-folder.ts"],
    setupFiles: ["test/support/environment.ts"],
    maxWorkers: 2,
    testTimeout: 900_000,
    expect: { poll: { timeout: 300_000 } },
    hookTimeout: 900_000,
  },
});
