// The figures that `yarn test`, `test:gpu`, `test:card` and `test:vllm` leave in build/reports: test.json, gpu.json, card.json and vllm.json.
import { existsSync, readFileSync } from "node:fs";

/**
 * @param {string} file
 * @param {string} what "the tests on a GPU"
 * @returns {{ line: string, passed: number, failed: number }} no report counts as one failed test; where tests failed,
 *   `line` has a further line for each
 */
export function figuresIn(file, what) {
  if (!existsSync(file)) return { line: `${what} left no report in ${file}`, passed: 0, failed: 1 };
  const { notRun, passed, failed, device, failures = [] } = JSON.parse(readFileSync(file, "utf8"));
  if (notRun !== undefined) return { line: `not run: ${what}: ${notRun}`, passed: 0, failed: 0 };
  const place = device ? ` (${device.backend}, ${device.name}, ${device.driver})` : "";
  const line = `${what}${place}: ${passed} passed, ${failed} failed`;
  return { line: [line, ...failures.map((failure) => `failed: ${failure}`)].join("\n"), passed, failed };
}
