/**
 * What a support module has to undo after each test file that used it. A worker imports a support module once for many test files, so
 * that vitest's own hooks in it would be the first file's alone. What it makes here it makes anew when it is next asked.
 */
const works: (() => unknown)[] = [];

/** To be called once, where the module begins. */
export const afterFile = (work: () => unknown) => void works.push(work);

/** For environment.ts: the latest first, as vitest does with hooks. */
export async function endFile(): Promise<void> {
  for (const work of works.toReversed()) await work();
}
