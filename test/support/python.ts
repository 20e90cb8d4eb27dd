/** Pythons that tests may use. Tests that need one which is not there say so when they are skipped. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ensurePython } from "../../src/learn/python.js";
import { packageRoot } from "../../src/util/paths.js";

function works(python: string, imports: string): boolean {
  return spawnSync(python, ["-c", `import ${imports}`], { stdio: "ignore" }).status === 0;
}

/** Any Python 3: enough for what only speaks the protocol. */
export const python = ["python3.12", "python3.11", "python3"].find((name) => works(name, "json")) ?? "";

const venv = process.env.HONE_TEST_PYTHON ?? join(packageRoot, ".venv/bin/python");

/** A Python with the learner's packages: the project's own environment, or the one HONE_TEST_PYTHON names. */
export const learnerPython =
  (existsSync(venv) || process.env.HONE_TEST_PYTHON) && works(venv, "torch, peft, transformers, gguf") ? venv : "";

/** For the title of a test that needs `learnerPython`. */
export const withoutLearner = learnerPython ? "" : ` (skipped: ${venv} has no learner packages)`;

/** The same, made first when it is not there: for tests that must not be skipped. */
export async function ensureLearnerPython(): Promise<string> {
  return learnerPython || (await ensurePython({ development: true }));
}
