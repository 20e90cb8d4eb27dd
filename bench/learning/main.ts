/**
 * `yarn learning [--base tiny|untaught|word-sums] [--seeds 1,2,3] [--coins 1,2,3,4] [--steps N] [--n 200] [--only NAME]
 * [--folder build/learning]`: tests whether training works. The figures go to bench/results, the curves to
 * docs/learning.svg, docs/untaught.svg for a base without training on the task, or docs/word-sums.svg for another task.
 * Finished runs and evaluations are kept in the folder and not repeated, so that the experiments can be run one at a time.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { resultsFile } from "../results.js";
import { baseOf } from "./bases.js";
import { curvesSvg } from "./curve.js";
import { buildDatabases, commandsOf, experiments, type Outcome, runExperiment } from "./experiments.js";

try {
  const { values } = parseArgs({
    options: {
      base: { type: "string", default: "tiny" },
      seeds: { type: "string", default: "1,2,3" },
      coins: { type: "string", default: "1,2,3,4" },
      steps: { type: "string" },
      n: { type: "string", default: "200" },
      only: { type: "string" },
      folder: { type: "string" },
    },
  });
  const base = baseOf(values.base);
  const folder = resolve(values.folder ?? join(packageRoot, "build", base.results));
  mkdirSync(folder, { recursive: true });
  const numbers = (text: string) => text.split(",").map(Number);
  const steps = values.steps ? Number(values.steps) : undefined;
  const all = experiments(numbers(values.seeds), numbers(values.coins), steps, base);
  const chosen = all.filter(({ name }) => values.only === undefined || name === values.only);
  if (chosen.length === 0) throw new HoneError(`--only: there are ${all.map(({ name }) => name).join(", ")}`);

  const databases = base.task ? undefined : buildDatabases(folder);
  const n = Number(values.n);
  const outcomes = chosen.map((one) => {
    const file = join(folder, `${one.name.replaceAll(" ", "-")}.json`);
    const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Outcome) : undefined;
    // An outcome with other options belongs to another experiment.
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
    const others = [
      ...(greedy.length > 0 ? [`greedy: ${text(greedy)}`] : []),
      ...(unseenNames.length > 0 ? [`unseen names: ${text(unseenNames)}`] : []),
    ];
    console.log([`${name}: ${text(heldOut)}`, ...others, `trained in ${seconds.toFixed(0)} s`].join("; "));
  }
  // The table always has all experiments, so a single one is not saved.
  if (chosen.length === all.length) {
    const hardware = hardwareOf(undefined);
    const date = new Date().toISOString().slice(0, 10);
    const file = resultsFile(base.results, hardware);
    writeFileSync(file, `${JSON.stringify({ date, hardware, versions: versionsOf(undefined), outcomes }, null, 1)}\n`);
    const curves = `docs/${base.results}.svg`;
    writeFileSync(join(packageRoot, curves), curvesSvg(outcomes));
    console.log(`saved to ${file} and ${curves}`);
  }
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`learning: ${error.message}`);
  process.exitCode = error.exitCode;
}
