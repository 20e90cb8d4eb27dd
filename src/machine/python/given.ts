/** A Python that the user names: it is used as it is, and nothing is installed into it. */

import { HoneError } from "../../core/util/errors.js";
import { run } from "../../core/util/run.js";
import { buildForMachine, unfit } from "../../engine/device/build.js";
import { currentDevice } from "../../engine/device/device.js";
import { buildTitles } from "../../engine/device/environment.js";
import { describePackages, type PythonPackages } from "../../engine/device/runtime.js";
import { pinned } from "./declared.js";
import { givenVersion } from "./interpreter.js";

/** Prints the prefix and the places of modules, then those of the named modules that are not there. */
const ASK = `import importlib.util as u, json, sys
print(json.dumps([[sys.prefix, *filter(None, sys.path)], [n for n in sys.argv[1:] if u.find_spec(n) is None]]))`;

async function ask(python: string, modules: Iterable<string> = []): Promise<{ places: string[]; lacks: string[] }> {
  const { stdout } = await run(python, ["-c", ASK, ...modules]);
  try {
    const [places, lacks] = JSON.parse(stdout) as [string[], string[]];
    return { places, lacks };
  } catch {
    // Not Python, or one that prints something else first: its own failure comes when the learner starts.
    return { places: [], lacks: [] };
  }
}

/** Packages of a Python of the user's; none where they cannot be determined. */
export async function packagesOfPython(python: string): Promise<PythonPackages> {
  const [prefix, ...sites] = (await ask(python)).places;
  return describePackages(sites, prefix);
}

/**
 * Versions of packages are not compared: a user who names a Python may have reasons for other versions.
 *
 * @param needs packages by name that it must have beside the learner's, with the versions that hone would take
 * @param cpu the learner will compute on the CPU, if at all
 * @throws HoneError that says what is missing and how to mend it
 */
export async function checkGiven(python: string, needs: ReadonlyMap<string, string>, cpu: boolean): Promise<string> {
  await givenVersion(python);
  const asked = new Map([...pinned(), ...needs]);
  const { places, lacks } = await ask(python, asked.keys());
  if (lacks.length > 0) {
    const pins = lacks.map((name) => `${name}==${asked.get(name)}`).join(" ");
    throw new HoneError(
      `--python ${python} lacks ${lacks.join(", ")}: run ${python} -m pip install ${pins}, or leave --python out`,
    );
  }
  const device = currentDevice();
  const [prefix, ...sites] = places;
  const packages = describePackages(sites, prefix);
  // Where PyTorch is not in the usual place for packages, the learner itself will check.
  const lack = cpu || packages.torchCuda === undefined ? undefined : unfit(packages, device);
  if (lack === undefined) return python;
  throw new HoneError(
    `--python ${python} has a PyTorch ${lack}; install one for ${buildTitles[buildForMachine(device)]} there, leave --python out, or use --gpu off`,
  );
}
