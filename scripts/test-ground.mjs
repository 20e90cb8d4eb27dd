// Prerequisites of tests: the compiled files, the learner's Python and the test models, made if missing.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

// Tests start Python hundreds of times, which would compile the same modules each time.
delete process.env.PYTHONDONTWRITEBYTECODE;

/** @returns {Promise<number>} its exit status; 1 if it was killed or is not there */
export function run(command, args, { env = process.env, stdio = "inherit" } = {}) {
  const child = spawn(command, args, { cwd: root, stdio, env });
  return new Promise((resolve) => {
    child.once("error", () => resolve(1));
    child.once("close", (status) => resolve(status ?? 1));
  });
}

/** Runs a node_modules tool without a shell, so that Ctrl-C reaches it. */
export function tool(path, args, env = process.env) {
  return run(process.execPath, [`node_modules/${path}`, ...args], { env });
}

/** Takes a flag out of the arguments. @returns {boolean} whether it was there */
export function takeFlag(args, flag) {
  const at = args.indexOf(flag);
  if (at >= 0) args.splice(at, 1);
  return at >= 0;
}

/**
 * The learner's Python with what tests need: pytest, ruff, other implementations to compare with.
 *
 * @param {boolean} full with Unsloth and the trackers' libraries, which only `--full` tests, as far as they can be installed
 * @throws Error with the reason in one line
 */
export async function developmentPython(full) {
  const { ensurePython } = await import("../dist/src/machine/python/python.js");
  const options = { onProgress: console.error, torchIndex: process.env.HONE_TORCH_INDEX };
  const python = await ensurePython({ ...options, extras: ["dev"] });
  // Optional packages: if they cannot be installed, their tests report that they did not run.
  for (const extra of full ? ["unsloth", "trackers"] : []) {
    try {
      await ensurePython({ ...options, extras: ["dev", extra] });
    } catch (error) {
      console.error(`hone: without ${extra}: ${error.message}`);
    }
  }
  return python;
}

/**
 * Makes what is missing, and compiles what has changed.
 *
 * @param {{ full: boolean, prepared: boolean }} how `prepared`: scripts/prepare.mjs was here before, and only the interpreter is asked for
 * @returns {Promise<string>} the learner's Python
 * @throws Error with the reason in one line; exits with 1 after the messages of compiler or bundler
 */
export async function prepare({ full, prepared }) {
  if (!prepared) {
    const built = await Promise.all([
      run(process.execPath, ["scripts/compile.mjs"]),
      tool("vite/bin/vite.js", ["build", "--config", "web/vite.config.ts", "--logLevel", "warn"]),
    ]);
    if (built.some((status) => status !== 0)) process.exit(1);
  }
  const python = await developmentPython(full);
  const { ensureTestModels } = await import("../dist/bench/models.js");
  await ensureTestModels(["tiny", "published"], console.error);
  return python;
}

/** Tests of vitest's JSON report. A file that fails to load, or whose preparation fails, counts as one failed test. */
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

/** Skipped tests, with the reason in their name ("(skipped: …)") or without one. */
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
