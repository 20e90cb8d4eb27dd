// `yarn test:vllm`: the tests on the real vLLM (test/**/*.vllm.test.ts), which is installed first, on a CPU. Arguments are
// handed to vitest. Ends with "N passed, N failed" and writes build/reports/vllm.json. Exit status 0: all passed; 1: a test
// failed; 3: vLLM cannot be had, and a line says why.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failures, figures, leftOut, prepare, root, tool } from "./test-ground.mjs";

const NOT_RUN = 3;
const reports = { vitest: "build/reports/vitest-vllm.json", vllm: "build/reports/vllm.json" };
const only = process.argv.slice(2);

mkdirSync(join(root, "build/reports"), { recursive: true });
for (const report of Object.values(reports)) rmSync(join(root, report), { force: true });
const write = (result) => writeFileSync(join(root, reports.vllm), `${JSON.stringify(result, null, 2)}\n`);

let python;
write({ passed: 0, failed: 1 });
try {
  await prepare();
} catch (error) {
  console.error(`hone: ${error.message}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}
try {
  const { ensureVllm } = await import("../dist/src/python-env/index.js");
  const torchIndex = process.env.HONE_TORCH_INDEX;
  ({ python } = await ensureVllm({ given: undefined, cuda: false, torchIndex, onProgress: console.error }));
} catch (error) {
  write({ notRun: error.message, passed: 0, failed: 0 });
  console.log(`not run: the tests on vLLM: ${error.message}`);
  process.exit(NOT_RUN);
}

const result = { passed: 0, failed: 1, seconds: 0 };
const began = performance.now();
const status = tool(
  "vitest/vitest.mjs",
  [
    "run",
    "--config=vitest.vllm.config.ts",
    "--reporter=verbose",
    "--reporter=json",
    `--outputFile.json=${reports.vitest}`,
    ...only,
  ],
  { ...process.env, VLLM_TEST_PYTHON: python },
);
result.seconds = (performance.now() - began) / 1000;
if (existsSync(join(root, reports.vitest))) {
  const report = JSON.parse(readFileSync(join(root, reports.vitest), "utf8"));
  Object.assign(result, figures(report, status), { failures: failures(report) });
  if (only.length === 0) {
    for (const { line, failed } of leftOut(report)) {
      console.log(line);
      if (failed) result.failed += 1;
    }
  }
}
write(result);
console.log(`${result.passed} passed, ${result.failed} failed`);
process.exit(result.failed === 0 && result.passed > 0 ? 0 : 1);
