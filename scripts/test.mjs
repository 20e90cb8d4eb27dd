// `yarn test`: builds, runs vitest and pytest, and ends with one line of both: "N passed, N failed".
// Arguments are handed to vitest (a file or a name to run alone); pytest then stays out.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

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

let passed = 0;
let failed = 0;

tool(
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
  // A file that does not load has no tests, yet it failed.
  failed += Math.max(report.numFailedTests, report.success ? 0 : 1);
} else failed += 1;

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
