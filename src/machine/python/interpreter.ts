/** The Python of this machine that the learner's environment is made with. */
import { HoneError, UsageError } from "../../core/util/errors.js";
import { lastLine, run } from "../../core/util/run.js";
import { pythonVersions } from "./declared.js";

/** Minor versions that the pinned PyTorch has wheels for; from ">=3.10,<3.15". */
const [oldest = 0, beyond = 0] = [...pythonVersions().matchAll(/3\.(\d+)/g)].map(([, minor]) => Number(minor));
const RANGE = `3.${oldest} to 3.${beyond - 1}`;

export type PythonVersion = readonly [major: number, minor: number];

const suitable = ([major, minor]: PythonVersion) => major === 3 && minor >= oldest && minor < beyond;

/** Major and minor version; undefined when there is no such program or it is not Python. */
async function versionOf(python: string): Promise<PythonVersion | undefined> {
  const { stdout } = await run(python, ["-c", "import sys; print(*sys.version_info[:2])"]);
  const match = /^(\d+) (\d+)\s*$/.exec(stdout);
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

/** The version of a Python that the user names. @throws UsageError where it cannot be run, or is one that will not do */
export async function givenVersion(python: string): Promise<PythonVersion> {
  const version = await versionOf(python);
  if (!version) throw new UsageError(`--python ${python}: there is no Python that can be run`);
  if (suitable(version)) return version;
  throw new UsageError(`--python ${python} is Python ${version.join(".")}; learning needs ${RANGE}`);
}

/**
 * The first suitable Python of this machine; the plain name comes first, since it is usually the user's choice.
 *
 * @param only the one version that will do
 */
export async function findPython(only?: PythonVersion): Promise<string> {
  const minors = Array.from({ length: beyond - oldest }, (_, index) => beyond - 1 - index);
  const unsuitable: string[] = [];
  for (const name of ["python3", ...minors.map((minor) => `python3.${minor}`)]) {
    const version = await versionOf(name);
    if (version && (only ? version.join() === only.join() : suitable(version))) return name;
    if (version) unsuitable.push(`${name} is ${version.join(".")}`);
  }
  const wanted = only
    ? `the packages that hone was unpacked with are for Python ${only.join(".")}`
    : `learning needs Python ${RANGE}`;
  const install = only ? only.join(".") : "one (or uv, which brings its own)";
  throw new HoneError(`${wanted}: ${unsuitable.join(", ") || "none was found"}; install ${install}, or give --python`);
}

/** Makes an empty environment. @param base a Python, which gives it a pip of its own, or "uv", which does not */
export async function makeVenv(base: string, folder: string, signal?: AbortSignal): Promise<void> {
  const args = base === "uv" ? ["venv", "--clear", "--python", pythonVersions()] : ["-m", "venv", "--clear"];
  const { code, stdout, stderr } = await run(base, [...args, folder], { signal });
  if (code === 0) return;
  const output = `${stdout}\n${stderr}`;
  throw new HoneError(
    /ensurepip is not available|No module named '?(venv|ensurepip)/.test(output)
      ? `${base} cannot make environments: install its venv module (Debian, Ubuntu: apt install python3-venv)`
      : `${base} could not make an environment in ${folder}: ${lastLine(output)}`,
  );
}
