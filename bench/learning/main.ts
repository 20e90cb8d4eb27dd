/**
 * `yarn learning [--base NAME] [--seeds 1,2,3] [--coins 1,2,3] [--success 1,2,3] [--steps N] [--n 200]
 * [--only NAME] [--folder build/learning/NAME]`: tests whether training works. Seeds are of runs with the task's reward, coins of
 * runs with random rewards, success of runs with success alone as the reward; the base has defaults, "none" leaves them out.
 * The bases are in bases.ts. The figures go to bench/results, curves to docs, where the docs show them; the tables of the
 * documentation are printed. Finished runs and evaluations are kept in the folder and not repeated, so that the experiments
 * can be run one at a time.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { HoneError, messageOf, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { ensurePretrained } from "../pretrained.js";
import { resultsFile } from "../results.js";
import { baseOf } from "./bases.js";
import { curvesSvg } from "./curve.js";
import { buildDatabases, commandsOf, experiments, type Outcome, runExperiment } from "./experiments.js";
import { ensureQuantised } from "./quantised.js";
import { tablesOf } from "./tables.js";

/** @throws UsageError */
function numbers(flag: string, text: string): number[] {
  if (text === "none") return [];
  const found = text.split(",").map(Number);
  if (found.every((one) => Number.isInteger(one) && one > 0)) return found;
  throw new UsageError(`--${flag} ${text}: give whole numbers above 0, such as 1,2,3, or none`);
}

/** @throws UsageError */
function parse() {
  try {
    return parseArgs({
      options: {
        base: { type: "string", default: "tiny" },
        seeds: { type: "string" },
        coins: { type: "string" },
        success: { type: "string" },
        steps: { type: "string" },
        n: { type: "string", default: "200" },
        only: { type: "string" },
        folder: { type: "string" },
      },
    }).values;
  } catch (error) {
    throw new UsageError(messageOf(error).split(".")[0] ?? "");
  }
}

try {
  const values = parse();
  const base = baseOf(values.base);
  const folder = resolve(values.folder ?? join(packageRoot, "build", "learning", base.name));
  mkdirSync(folder, { recursive: true });
  const chosenSeeds = (name: keyof typeof base.seeds) =>
    values[name] === undefined ? base.seeds[name] : numbers(name, values[name]);
  const seeds = { seeds: chosenSeeds("seeds"), coins: chosenSeeds("coins"), success: chosenSeeds("success") };
  const [steps] = values.steps === undefined ? [] : numbers("steps", values.steps);
  const all = experiments(base, seeds, steps);
  const chosen = all.filter(({ name }) => values.only === undefined || name === values.only);
  if (chosen.length === 0) throw new HoneError(`--only: there are ${all.map(({ name }) => name).join(", ")}`);

  if (base.quantised) await ensureQuantised(base.quantised, console.error);
  const model = base.pretrained ? await ensurePretrained(base.pretrained, console.error) : base.model;
  const databases = base.task ? undefined : buildDatabases(folder);
  const [n = 200] = numbers("n", values.n);
  const outcomes = chosen.map((one) => {
    const file = join(folder, `${one.name.replaceAll(" ", "-")}.json`);
    const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Outcome) : undefined;
    // An outcome with other options belongs to another experiment.
    if (kept && isDeepStrictEqual(kept.commands, commandsOf(one, n))) return kept;
    const outcome = runExperiment(one, model, folder, databases, n);
    writeFileSync(file, `${JSON.stringify(outcome, null, 1)}\n`);
    return outcome;
  });
  console.log(tablesOf(outcomes).join("\n\n"));
  // The tables always have all experiments, so a single one is not saved.
  if (chosen.length === all.length) {
    const hardware = hardwareOf(undefined);
    const date = new Date().toISOString().slice(0, 10);
    const file = resultsFile(base.results, hardware);
    writeFileSync(file, `${JSON.stringify({ date, hardware, versions: versionsOf(undefined), outcomes }, null, 1)}\n`);
    console.log(`saved to ${file}`);
    if (base.drawn) {
      const curves = `docs/${base.results}.svg`;
      writeFileSync(join(packageRoot, curves), curvesSvg(outcomes));
      console.log(`drawn in ${curves}`);
    }
  }
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`learning: ${error.message}`);
  process.exitCode = error.exitCode;
}
