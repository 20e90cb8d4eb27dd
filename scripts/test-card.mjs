// `yarn test:card`: the tests on a null card (test/**/*.card.test.ts), which test/null-card/build.mjs builds. Other arguments are
// handed to vitest. Ends with "N passed, N failed" and writes build/reports/card.json. Exit status 0: all passed; 1: a test
// failed; 3: nothing was run, and a line says why.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failures, figures, leftOut, prepare, root, tool } from "./test-ground.mjs";

const NOT_RUN = 3;
const reports = { vitest: "build/reports/vitest-card.json", card: "build/reports/card.json" };
const only = process.argv.slice(2);

mkdirSync(join(root, "build/reports"), { recursive: true });
for (const report of Object.values(reports)) rmSync(join(root, report), { force: true });
const device = { backend: "CUDA's path", name: "null card", driver: "nothing computed" };
const write = (result) =>
  writeFileSync(join(root, reports.card), `${JSON.stringify({ device, ...result }, null, 2)}\n`);
write({ passed: 0, failed: 1 });

let python;
try {
  python = await prepare();
} catch (error) {
  console.error(`hone: ${error.message}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}
const { buildNullCard } = await import("../test/null-card/build.mjs");
const notRun = await buildNullCard(python);
if (notRun !== undefined) {
  write({ notRun, passed: 0, failed: 0 });
  console.log(`not run: the tests on a null card: ${notRun}`);
  process.exit(NOT_RUN);
}
const result = { passed: 0, failed: 1 };
const reporters = ["--reporter=verbose", "--reporter=json", `--outputFile.json=${reports.vitest}`];
const status = tool("vitest/vitest.mjs", ["run", "--config=vitest.card.config.ts", ...reporters, ...only]);
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
