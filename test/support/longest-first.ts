import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Begins with the files that take longest: the last one of a run has nothing beside it.
 *
 * @param names without ".test.ts", the longest first
 */
export const longestFirst = (names: readonly string[]) =>
  class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const place = ({ moduleId }: TestSpecification) => {
        const at = names.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
        return at < 0 ? names.length : at;
      };
      return [...(await super.sort(files))].sort((a, b) => place(a) - place(b));
    }
  };
