/** A Python that the user names: it is used as it is, and nothing is installed into it. */
import {
  buildForMachine,
  buildTitles,
  currentDevice,
  describePackages,
  type PythonPackages,
  unfit,
} from "../device/index.js";
import { HoneError, run } from "../util/index.js";
import { pinned } from "./declared.js";
import { OLDEST, versionOf } from "./interpreter.js";
import type { Extra } from "./packages.js";

/**
 * Versions are not compared: a user who names a Python may have reasons for other versions.
 *
 * @param needs packages of an extra that it must have too
 * @param cpu the learner will compute on the CPU, if at all
 * @throws HoneError that says what is missing and how to mend it
 */
export async function checkGiven(
  python: string,
  needs: { readonly extra: Extra; readonly names: readonly string[] } | undefined,
  cpu: boolean,
): Promise<string> {
  const version = await versionOf(python);
  if (!version) throw new HoneError(`--python ${python}: there is no Python that can be run`);
  if (version[0] !== OLDEST[0] || version[1] < OLDEST[1]) {
    throw new HoneError(
      `--python ${python} is Python ${version.join(".")}; learning needs ${OLDEST.join(".")} or newer`,
    );
  }
  const asked = new Map(pinned());
  for (const name of needs?.names ?? []) asked.set(name, pinned(needs?.extra).get(name) ?? "");
  const script = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])";
  const lacks = (await run(python, ["-c", script, ...asked.keys()])).stdout.trim();
  if (lacks !== "") {
    const missing = lacks.split(" ");
    const pins = missing.map((name) => `${name}==${asked.get(name)}`).join(" ");
    throw new HoneError(
      `--python ${python} lacks ${missing.join(", ")}: run ${python} -m pip install ${pins}, or leave --python out`,
    );
  }
  const device = currentDevice();
  if (cpu || !device.card) return python;
  const packages = await packagesOfPython(python);
  // Where PyTorch is not in the usual place for packages, the learner itself will check.
  const lack = packages.torchCuda === undefined ? undefined : unfit(packages, device);
  if (lack === undefined) return python;
  const build = buildForMachine(device);
  throw new HoneError(
    `--python ${python} has a PyTorch ${lack}; install one for ${buildTitles[build]} there, leave --python out, or use --gpu off`,
  );
}

/** Packages of a Python of the user's; none where they cannot be determined. */
export async function packagesOfPython(python: string): Promise<PythonPackages> {
  const asked = await run(python, ["-c", "import json, sys; print(json.dumps([sys.prefix, *filter(None, sys.path)]))"]);
  try {
    const [prefix, ...sites] = JSON.parse(asked.stdout) as string[];
    return describePackages(sites, prefix);
  } catch {
    // Not Python, or one that prints something else first: checkGiven reports the cause.
    return describePackages([], undefined);
  }
}
