/** The Python of this machine that the learner's environment is made with. */
import { HoneError, lastLine, run } from "../util/index.js";
import { pythonVersions } from "./declared.js";

/** The oldest and the newest version that the pinned PyTorch has wheels for; from ">=3.10,<3.15". */
const [oldest = 0, beyond = 0] = [...pythonVersions().matchAll(/3\.(\d+)/g)].map(([, minor]) => Number(minor));
export const OLDEST = [3, oldest] as const;
export const NEWEST = [3, beyond - 1] as const;
const range = `${OLDEST.join(".")} to ${NEWEST.join(".")}`;

export type PythonVersion = readonly [major: number, minor: number];

/**
 * The first suitable Python of this machine; the plain name comes first, since it is usually the user's choice.
 *
 * @param only the one version that will do
 */
export async function findPython(only?: PythonVersion): Promise<string> {
  const names = ["python3"];
  for (let minor: number = NEWEST[1]; minor >= OLDEST[1]; minor--) names.push(`python3.${minor}`);
  const unsuitable: string[] = [];
  for (const name of names) {
    const version = await versionOf(name);
    if (!version) continue;
    if (only ? version.join() === only.join() : suitable(version)) return name;
    unsuitable.push(`${name} is ${version.join(".")}`);
  }
  const found = unsuitable.length > 0 ? unsuitable.join(", ") : "none was found";
  if (only) {
    const version = only.join(".");
    throw new HoneError(
      `the packages that hone was unpacked with are for Python ${version}: ${found}; install ${version}, or give --python`,
    );
  }
  throw new HoneError(
    `learning needs Python ${range}: ${found}; install one (or uv, which brings its own), or give --python`,
  );
}

/** Major and minor version; undefined when there is no such program or it is not Python. */
export async function versionOf(python: string): Promise<PythonVersion | undefined> {
  const asked = await run(python, ["-c", "import sys; print(*sys.version_info[:2])"]);
  const match = asked.code === 0 ? asked.stdout.match(/^(\d+) (\d+)\s*$/) : null;
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

export function suitable([major, minor]: PythonVersion): boolean {
  return major === OLDEST[0] && minor >= OLDEST[1] && minor <= NEWEST[1];
}

/** Whether a Python has a pip that can install into other environments (22.3 and newer). */
export async function pipReachesOut(python: string): Promise<boolean> {
  const { code, stdout } = await run(python, ["-m", "pip", "--version"]);
  const [major = 0, minor = 0] = (/^pip (\d+)\.(\d+)/.exec(stdout) ?? []).slice(1).map(Number);
  return code === 0 && (major > 22 || (major === 22 && minor >= 3));
}

/** @param pip whether the environment gets a pip of its own, which takes most of the time */
export async function makeVenv(base: string, folder: string, pip = true): Promise<void> {
  const made = await run(base, ["-m", "venv", "--clear", ...(pip ? [] : ["--without-pip"]), folder]);
  if (made.code === 0) return;
  const output = `${made.stdout}\n${made.stderr}`;
  if (/ensurepip is not available|No module named '?(venv|ensurepip)/.test(output)) {
    throw new HoneError(
      `${base} cannot make environments: install its venv module (Debian, Ubuntu: apt install python3-venv)`,
    );
  }
  throw new HoneError(`${base} could not make an environment in ${folder}: ${lastLine(output)}`);
}
