/**
 * `yarn learning [--seeds 1,2,3] [--coins 1,2,3,4] [--steps N] [--n 200] [--only NAME] [--folder build/learning]`: does
 * training work? The figures go to bench/results, the curves to docs/learning.svg. What was trained and evaluated before
 * is kept in the folder and not done again, so that the experiments can be made one at a time.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { resultsFile } from "../results.js";
import { curvesSvg } from "./curve.js";
import { buildDatabases, commandsOf, experiments, type Outcome, runExperiment } from "./experiments.js";

try {
  const { values } = parseArgs({
    options: {
      seeds: { type: "string", default: "1,2,3" },
      coins: { type: "string", default: "1,2,3,4" },
      steps: { type: "string" },
      n: { type: "string", default: "200" },
      only: { type: "string" },
      folder: { type: "string", default: join(packageRoot, "build/learning") },
    },
  });
  const folder = resolve(values.folder);
  mkdirSync(folder, { recursive: true });
  const numbers = (text: string) => text.split(",").map(Number);
  const steps = values.steps ? Number(values.steps) : undefined;
  const all = experiments(numbers(values.seeds), numbers(values.coins), steps);
  const chosen = all.filter(({ name }) => values.only === undefined || name === values.only);
  if (chosen.length === 0) throw new HoneError(`--only: there are ${all.map(({ name }) => name).join(", ")}`);

  const databases = buildDatabases(folder);
  const n = Number(values.n);
  const outcomes = chosen.map((one) => {
    const file = join(folder, `${one.name.replaceAll(" ", "-")}.json`);
    const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Outcome) : undefined;
    // An outcome of other options is none of this experiment.
    if (kept && isDeepStrictEqual(kept.commands, commandsOf(one, n))) return kept;
    const outcome = runExperiment(one, folder, databases, n);
    writeFileSync(file, `${JSON.stringify(outcome, null, 1)}\n`);
    return outcome;
  });
  for (const { name, heldOut, greedy, unseenNames, seconds } of outcomes) {
    const text = (list: typeof heldOut) =>
      list
        .map(
          ({ checkpoint, success, low, high }) =>
            `${checkpoint} ${(100 * success).toFixed(1)} % (${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)})`,
        )
        .join(", ");
    console.log(
      `${name}: ${text(heldOut)}; greedy: ${text(greedy)}; unseen names: ${text(unseenNames)}; trained in ${seconds.toFixed(0)} s`,
    );
  }
  // One experiment alone is a part of the table: what is saved is always all of it.
  if (chosen.length === all.length) {
    const hardware = hardwareOf(undefined);
    const date = new Date().toISOString().slice(0, 10);
    const file = resultsFile("learning", hardware);
    writeFileSync(file, `${JSON.stringify({ date, hardware, versions: versionsOf(undefined), outcomes }, null, 1)}\n`);
    writeFileSync(join(packageRoot, "docs/learning.svg"), curvesSvg(outcomes));
    console.log(`saved to ${file} and docs/learning.svg`);
  }
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`learning: ${error.message}`);
  process.exitCode = error.exitCode;
}
