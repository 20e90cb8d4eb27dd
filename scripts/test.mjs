// `yarn test`: builds, makes the Python environment and the test models where they are missing, runs vitest and pytest,
// and ends with one line of both: "N passed, N failed".
// Arguments are handed to vitest (a file or a name to run alone); pytest then stays out.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { skippedTests } from "./skipped.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const reports = { vitest: "build/reports/vitest.json", pytest: "build/reports/pytest.xml" };
const only = process.argv.slice(2);

function run(command, args) {
  return spawnSync(command, args, { cwd: root, stdio: "inherit" }).status ?? 1;
}

/** Runs a node_modules tool without a shell between, so that Ctrl-C reaches it. */
function tool(path, ...args) {
  return run(process.execPath, [`node_modules/${path}`, ...args]);
}

mkdirSync(`${root}/build/reports`, { recursive: true });
for (const report of Object.values(reports)) rmSync(`${root}/${report}`, { force: true });

if (tool("typescript/bin/tsc", "-p", "tsconfig.build.json") !== 0) process.exit(1);

const { ensurePython } = await import("../dist/src/learn/index.js");
const { ensureTestModels } = await import("../dist/bench/models.js");
let python;
try {
  python = await ensurePython({
    development: true,
    onProgress: console.error,
    torchIndex: process.env.HONE_TORCH_INDEX,
  });
  await ensureTestModels(["tiny"], console.error);
} catch (error) {
  console.error(`hone: ${error.message}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}

let passed = 0;
let failed = 0;

const vitest = tool(
  "vitest/vitest.mjs",
  "run",
  "--reporter=default",
  "--reporter=json",
  `--outputFile.json=${reports.vitest}`,
  ...only,
);
if (existsSync(`${root}/${reports.vitest}`)) {
  const report = JSON.parse(readFileSync(`${root}/${reports.vitest}`, "utf8"));
  passed += report.numPassedTests;
  // A file that does not load has no tests, yet it failed; so has one whose preparation failed, with all its tests.
  failed += Math.max(report.numFailedTests, report.success && vitest === 0 ? 0 : 1);
  // A test that a machine cannot run says why in its name. Asked for by name (-t), the others are left out in silence.
  if (only.length === 0) {
    const left = report.testResults.flatMap(({ assertionResults }) =>
      assertionResults.filter(({ status }) => status !== "passed" && status !== "failed"),
    );
    for (const { fullName } of left) {
      const said = fullName.includes("(skipped: ");
      console.log(said ? `not run: ${fullName}` : `not run, without a reason in its name: ${fullName}`);
      if (!said) failed += 1;
    }
  }
} else failed += 1;

if (only.length === 0) {
  const status = run(python, ["-m", "pytest", "-q", "--color=yes", `--junit-xml=${reports.pytest}`]);
  const report = existsSync(`${root}/${reports.pytest}`) ? readFileSync(`${root}/${reports.pytest}`, "utf8") : "";
  const count = (name) => Number(report.match(new RegExp(`<testsuite[^>]* ${name}="(\\d+)"`))?.[1] ?? 0);
  const broken = count("failures") + count("errors");
  passed += count("tests") - broken - count("skipped");
  failed += Math.max(broken, status === 0 ? 0 : 1);
  for (const skipped of skippedTests(report, Boolean(process.env.CI))) {
    console.log(skipped.line);
    if (skipped.failed) failed += 1;
  }
}

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
