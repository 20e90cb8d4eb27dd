/** The Python packages of trackers: an extra, installed into hone's environment at its first use. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError, packageRoot, withLock } from "../util/index.js";
import { type OnLine, run } from "./installer.js";
import { installerFor } from "./python.js";
import { files } from "./stamp.js";

const requirements = join(packageRoot, "native/learner/requirements-track.txt");

/** "wandb==0.31.0" */
function pinOf(name: string): string {
  const pin = readFileSync(requirements, "utf8").match(new RegExp(`^${name}==\\S+$`, "m"))?.[0];
  if (!pin) throw new Error(`${requirements} does not pin ${name}`);
  return pin;
}

/** Versions by name; null for packages that are missing. */
async function versionsIn(python: string, names: readonly string[]): Promise<Record<string, string | null>> {
  const script = [
    "import importlib.metadata as m, json, sys",
    "there = {d.metadata['Name'].lower(): d.version for d in m.distributions() if d.metadata['Name']}",
    "print(json.dumps({n: there.get(n) for n in sys.argv[1:]}))",
  ].join("\n");
  const { code, stdout, stderr } = await run(python, ["-c", script, ...names]);
  if (code !== 0)
    throw new HoneError(`${python} could not be asked for its packages: ${stderr.trim().split("\n").at(-1)}`);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "{}") as Record<string, string | null>;
}

export interface TrackerPackages {
  /** The interpreter is the user's: nothing is installed into it. */
  readonly given: boolean;
  readonly onProgress: OnLine;
  /** The installer; replaced in tests. */
  readonly install?: (python: string, args: readonly string[], onLine: OnLine) => Promise<void>;
}

async function installInto(python: string, args: readonly string[], onLine: OnLine): Promise<void> {
  const installer = await installerFor(python);
  await installer.install(args, { onLine });
}

/**
 * Makes sure that a Python has the packages of these trackers. Safe to call in several processes at once.
 * @throws HoneError that says what is missing and how to mend it
 */
export async function ensureTrackers(
  python: string,
  names: readonly string[],
  { given, onProgress, install = installInto }: TrackerPackages,
): Promise<void> {
  if (names.length === 0) return;
  const lacking = async () => {
    const there = await versionsIn(python, names);
    // A user who names a Python may have reasons for other versions.
    return names.filter((name) => (given ? there[name] === null : `${name}==${there[name]}` !== pinOf(name)));
  };
  const missing = await lacking();
  if (missing.length === 0) return;
  if (given) {
    throw new HoneError(
      `--track ${missing.join()}: --python ${python} lacks ${missing.join(" and ")}: run ${python} -m pip install ${missing.map(pinOf).join(" ")}, or leave one of the two out`,
    );
  }
  const folder = join(python, "../..");
  const waiting = () => onProgress("waiting for another process that installs the Python environment");
  await withLock(`${folder}.lock`, waiting, async () => {
    const still = await lacking();
    if (still.length === 0) return;
    onProgress(`installing ${still.join(" and ")} for --track`);
    // Together with the learner's requirements, so that none of those changes version.
    await install(python, ["-r", files.runtime, ...still.map(pinOf)], onProgress);
  });
}
