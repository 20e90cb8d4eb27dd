// What tests stand on: the compiled files, the learner's Python and the test models, made where they are missing.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** @returns {number} its exit status; 1 where it was killed */
export function run(command, args, env = process.env) {
  return spawnSync(command, args, { cwd: root, stdio: "inherit", env }).status ?? 1;
}

/** Runs a node_modules tool without a shell between, so that Ctrl-C reaches it. */
export function tool(path, args, env = process.env) {
  return run(process.execPath, [`node_modules/${path}`, ...args], env);
}

/**
 * @returns {Promise<string>} the learner's Python
 * @throws Error with one line that says why, and process exit 1 after the own complaints of compiler or bundler
 */
export async function prepare() {
  if (tool("typescript/bin/tsc", ["-p", "tsconfig.build.json"]) !== 0) process.exit(1);
  if (tool("vite/bin/vite.js", ["build", "--config", "web/vite.config.ts", "--logLevel", "warn"]) !== 0)
    process.exit(1);
  const { ensurePython, ensureTrackers } = await import("../dist/src/learn/index.js");
  const { ensureTestModels } = await import("../dist/bench/models.js");
  const python = await ensurePython({
    development: true,
    onProgress: console.error,
    torchIndex: process.env.HONE_TORCH_INDEX,
  });
  // Extras: where one cannot be had, its tests say that they did not run.
  try {
    await ensurePython({ unsloth: true, onProgress: console.error, torchIndex: process.env.HONE_TORCH_INDEX });
  } catch (error) {
    console.error(`hone: without Unsloth: ${error.message}`);
  }
  try {
    await ensureTrackers(python, ["tensorboard", "wandb"], { given: false, onProgress: console.error });
  } catch (error) {
    console.error(`hone: without trackers: ${error.message}`);
  }
  await ensureTestModels(["tiny", "published"], console.error);
  return python;
}

/** Tests of vitest's JSON report. A file that does not load has no tests, yet it failed; so has one whose preparation failed. */
export function figures(report, status) {
  return {
    passed: report.numPassedTests,
    failed: Math.max(report.numFailedTests, report.success && status === 0 ? 0 : 1),
  };
}

/** Failed tests of vitest's JSON report, and files that did not load: a line each, with the first line of its error. */
export function failures(report) {
  return report.testResults.flatMap(({ name, message, assertionResults }) => {
    const failed = assertionResults.filter(({ status }) => status === "failed");
    const lines = failed.map(({ fullName, failureMessages }) => [fullName, failureMessages[0] ?? ""]);
    if (lines.length === 0 && message) lines.push([name, message]);
    return lines.map(([what, error]) => `${what}: ${error.split("\n")[0]}`);
  });
}

/** Tests that did not run, with a name that says why ("(skipped: …)") or not: then one is missed by nobody. */
export function leftOut(report) {
  const left = report.testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status !== "passed" && status !== "failed"),
  );
  return left.map(({ fullName }) => {
    const said = fullName.includes("(skipped: ");
    return {
      line: said ? `not run: ${fullName}` : `not run, without a reason in its name: ${fullName}`,
      failed: !said,
    };
  });
}
