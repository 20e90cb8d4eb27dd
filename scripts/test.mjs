// `yarn test`: builds, makes the Python environment and the test models where they are missing, runs vitest and, beside it, pytest,
// and ends with one line of both: "N passed, N failed".
// `--full` adds the slower tests (test/**/*.full.test.ts, and pytest's marked `full`), several times the time; `--guards` runs those
// of the slower ones alone that guard the step, without what repeats it (test/support/everything.ts). Other arguments are handed to vitest (a file or a name to run alone); pytest then
// stays out.
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failedTests, skippedTests } from "./skipped.mjs";
import { failures, figures, leftOut, prepare, root, run, takeFlag, tool } from "./test-ground.mjs";

/** Folders of test/ whose slower tests guard the step: what is played is what is learnt, and what is committed can be gone on from. */
const GUARDS = ["composition", "engine", "gather", "learn", "replay", "train"];
/**
 * Of these folders, what guards no step: which device and which of its libraries there are (`yarn test:card` loads them, too), what 16
 * bits cost, and replays of runs of every kind.
 */
const NO_GUARDS = ["cuda.full.test.ts", "missing.full.test.ts", "precision.full.test.ts", "kinds.full.test.ts"];

const only = process.argv.slice(2);
const guards = takeFlag(only, "--guards");
const full = takeFlag(only, "--full") || guards;
const prepared = takeFlag(only, "--prepared");
if (guards) {
  const slow = (folder) =>
    readdirSync(join(root, "test", folder)).filter(
      (file) => file.endsWith(".full.test.ts") && !NO_GUARDS.includes(file),
    );
  only.push(...GUARDS.flatMap((folder) => slow(folder).map((file) => `test/${folder}/${file}`)));
}
const name = guards ? "guards" : "test";
const reports = {
  all: `build/reports/${name}.json`,
  vitest: `build/reports/vitest-${name}.json`,
  pytest: "build/reports/pytest.xml",
  said: "build/reports/pytest.log",
};

mkdirSync(join(root, "build/reports"), { recursive: true });
for (const report of Object.values(reports)) rmSync(join(root, report), { force: true });

let python;
try {
  python = await prepare({ full, prepared });
} catch (error) {
  console.error(`hone: ${error.message}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}
// Ctrl-C ends vitest and pytest, and what they have found until then is still told.
process.on("SIGINT", () => undefined);

/** What pytest says goes to a file, which is shown after what vitest says. */
async function pytest() {
  const part = full ? [] : ["-m", "not full"];
  const args = ["-m", "pytest", ...part, "-q", "--color=yes", `--junit-xml=${reports.pytest}`];
  const said = openSync(join(root, reports.said), "w");
  // Threads of one product that wait for each other, while vitest's have the cores, take longer than one thread.
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  const status = await run(python, args, { env, stdio: ["ignore", said, said] });
  closeSync(said);
  return status;
}

const vitest = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${reports.vitest}`, ...only];
const [ofVitest, ofPytest] = await Promise.all([
  tool("vitest/vitest.mjs", vitest, { ...process.env, TEST_FULL: guards ? "guards" : full ? "1" : "" }),
  only.length === 0 ? pytest() : undefined,
]);

let passed = 0;
let failed = 0;
/** A line for each that failed, printed again at the end: a log may be kept by its last lines alone. */
const broken = [];
/** Tests that cannot run here, with the reason. */
const notRun = [];

if (existsSync(join(root, reports.vitest))) {
  const report = JSON.parse(readFileSync(join(root, reports.vitest), "utf8"));
  const count = figures(report, ofVitest);
  passed += count.passed;
  failed += count.failed;
  broken.push(...failures(report));
  // A test that cannot run on this machine has the reason in its name. With a filter (-t), skipped tests are not
  // listed.
  if (only.length === 0 || guards) notRun.push(...leftOut(report));
} else failed += 1;

if (ofPytest !== undefined) {
  console.log(readFileSync(join(root, reports.said), "utf8"));
  const report = existsSync(join(root, reports.pytest)) ? readFileSync(join(root, reports.pytest), "utf8") : "";
  const count = (name) => Number(report.match(new RegExp(`<testsuite[^>]* ${name}="(\\d+)"`))?.[1] ?? 0);
  const lost = count("failures") + count("errors");
  passed += count("tests") - lost - count("skipped");
  failed += Math.max(lost, ofPytest === 0 ? 0 : 1);
  broken.push(...failedTests(report));
  notRun.push(...skippedTests(report, Boolean(process.env.CI)));
}

for (const { line, failed: wrongly } of notRun) {
  console.log(line);
  if (wrongly) failed += 1;
}
for (const line of broken) console.log(`failed: ${line}`);
writeFileSync(join(root, reports.all), `${JSON.stringify({ passed, failed, failures: broken }, null, 2)}\n`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
