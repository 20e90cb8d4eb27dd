// The figures of `yarn test:gpu`, `test:card` and `test:vllm`, which they leave in build/reports/gpu.json, card.json and vllm.json.
import { existsSync, readFileSync } from "node:fs";

/**
 * @param {string} file
 * @param {string} what "a GPU": what the tests need
 * @param {(report: object) => string} place where they ran
 * @returns {{ line: string, passed: number, failed: number }} no report counts as one failed test; where tests failed,
 *   `line` has a further line for each
 */
function figuresIn(file, what, place) {
  if (!existsSync(file)) return { line: `the tests on ${what} left no report in ${file}`, passed: 0, failed: 1 };
  const report = JSON.parse(readFileSync(file, "utf8"));
  const { notRun, passed, failed, failures = [] } = report;
  if (notRun !== undefined) return { line: `not run: the tests on ${what}: ${notRun}`, passed: 0, failed: 0 };
  const line = `on ${what}${place(report)}: ${passed} passed, ${failed} failed`;
  return { line: [line, ...failures.map((failure) => `failed on it: ${failure}`)].join("\n"), passed, failed };
}

const onDevice = ({ device }) => ` (${device.backend}, ${device.name}, ${device.driver})`;

export const gpuFigures = (file) => figuresIn(file, "a GPU", onDevice);

export const cardFigures = (file) => figuresIn(file, "a null card", onDevice);

export const vllmFigures = (file) => figuresIn(file, "vLLM", () => "");
