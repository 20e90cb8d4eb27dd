// The figures of `yarn test:gpu` and `yarn test:card`, which they leave in build/reports/gpu.json and card.json.
import { existsSync, readFileSync } from "node:fs";

/**
 * @param {string} file
 * @param {string} place what the tests run on
 * @returns {{ line: string, passed: number, failed: number }} no report counts as one failed test; where tests failed,
 *   `line` has a further line for each
 */
export function gpuFigures(file, place = "a GPU") {
  if (!existsSync(file)) return { line: `the tests on ${place} left no report in ${file}`, passed: 0, failed: 1 };
  const { device, notRun, passed, failed, failures = [] } = JSON.parse(readFileSync(file, "utf8"));
  if (notRun !== undefined) return { line: `not run: the tests on ${place}: ${notRun}`, passed: 0, failed: 0 };
  const line = `on ${place} (${device.backend}, ${device.name}, ${device.driver}): ${passed} passed, ${failed} failed`;
  return { line: [line, ...failures.map((failure) => `failed on it: ${failure}`)].join("\n"), passed, failed };
}
