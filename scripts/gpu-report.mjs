// The figures of `yarn test:gpu`, which it leaves in build/reports/gpu.json.
import { existsSync, readFileSync } from "node:fs";

/**
 * @param {string} file
 * @returns {{ line: string, passed: number, failed: number }} no report counts as one failed test; where tests failed,
 *   `line` has a further line for each
 */
export function gpuFigures(file) {
  if (!existsSync(file)) return { line: `the tests on a GPU left no report in ${file}`, passed: 0, failed: 1 };
  const { device, notRun, passed, failed, failures = [] } = JSON.parse(readFileSync(file, "utf8"));
  if (notRun !== undefined) return { line: `not run: the tests on a GPU: ${notRun}`, passed: 0, failed: 0 };
  const line = `on a GPU (${device.backend}, ${device.name}, ${device.driver}): ${passed} passed, ${failed} failed`;
  return { line: [line, ...failures.map((failure) => `failed on it: ${failure}`)].join("\n"), passed, failed };
}
