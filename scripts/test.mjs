// `yarn test`: builds, makes the Python environment and the test models where they are missing, runs vitest and pytest,
// and ends with one line of both: "N passed, N failed".
// `--full` adds the slower tests (test/**/*.full.test.ts, and pytest's marked `full`), twice the time. `--gpu-report FILE`
// and `--card-report`, `--vllm-report` add the figures that `yarn test:gpu`, `yarn test:card` and `yarn test:vllm` have left in
// FILE. Other arguments are handed to vitest (a file or a name to run alone); pytest then stays out.
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { cardFigures, gpuFigures, vllmFigures } from "./part-reports.mjs";
import { failedTests, skippedTests } from "./skipped.mjs";
import { failures, figures, leftOut, prepare, root, run, tool } from "./test-ground.mjs";

const reports = { vitest: "build/reports/vitest.json", pytest: "build/reports/pytest.xml" };
const only = process.argv.slice(2).filter((argument) => argument !== "--full");
const full = process.argv.includes("--full");
/** Figures of tests that another command has run, by the option that names its report. */
const parts = Object.entries({
  "--gpu-report": gpuFigures,
  "--card-report": cardFigures,
  "--vllm-report": vllmFigures,
}).flatMap(([flag, read]) => {
  const at = only.indexOf(flag);
  return at < 0 ? [] : [{ read, file: resolve(only.splice(at, 2)[1] ?? "") }];
});

mkdirSync(join(root, "build/reports"), { recursive: true });
for (const report of Object.values(reports)) rmSync(join(root, report), { force: true });

let python;
try {
  python = await prepare();
} catch (error) {
  console.error(`hone: ${error.message}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}

let passed = 0;
let failed = 0;
/** A line for each that failed, printed again at the end: a log may be kept by its last lines alone. */
const broken = [];

const vitest = tool(
  "vitest/vitest.mjs",
  ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${reports.vitest}`, ...only],
  { ...process.env, TEST_FULL: full ? "1" : "" },
);
if (existsSync(join(root, reports.vitest))) {
  const report = JSON.parse(readFileSync(join(root, reports.vitest), "utf8"));
  const count = figures(report, vitest);
  passed += count.passed;
  failed += count.failed;
  broken.push(...failures(report));
  // A test that cannot run on this machine has the reason in its name. With a filter (-t), skipped tests are not
  // listed.
  if (only.length === 0) {
    for (const left of leftOut(report)) {
      console.log(left.line);
      if (left.failed) failed += 1;
    }
  }
} else failed += 1;

if (only.length === 0) {
  const part = full ? [] : ["-m", "not full"];
  const status = run(python, ["-m", "pytest", ...part, "-q", "--color=yes", `--junit-xml=${reports.pytest}`]);
  const report = existsSync(join(root, reports.pytest)) ? readFileSync(join(root, reports.pytest), "utf8") : "";
  const count = (name) => Number(report.match(new RegExp(`<testsuite[^>]* ${name}="(\\d+)"`))?.[1] ?? 0);
  const lost = count("failures") + count("errors");
  passed += count("tests") - lost - count("skipped");
  failed += Math.max(lost, status === 0 ? 0 : 1);
  broken.push(...failedTests(report));
  for (const skipped of skippedTests(report, Boolean(process.env.CI))) {
    console.log(skipped.line);
    if (skipped.failed) failed += 1;
  }
}

for (const { read, file } of parts) {
  const part = read(file);
  console.log(part.line);
  passed += part.passed;
  failed += part.failed;
}

for (const line of broken) console.log(`failed: ${line}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
