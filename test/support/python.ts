/** Python interpreters for tests. A test that needs one is never skipped: without it, it fails. */
import { spawnSync } from "node:child_process";
import { ensurePython } from "../../src/machine/python/python.js";

/** Any Python 3: enough for scripts that use the standard library alone. */
export function anyPython(): string {
  const names = ["python3.12", "python3.11", "python3"];
  const found = names.find((name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0);
  if (found === undefined) throw new Error(`there is no Python 3 on PATH (${names.join(", ")})`);
  return found;
}

/** A Python with the learner's packages: the one that HONE_TEST_PYTHON names, or hone's own, made first if missing. */
export async function ensureLearnerPython(): Promise<string> {
  return process.env.HONE_TEST_PYTHON ?? (await ensurePython({ extras: ["dev"] }));
}
