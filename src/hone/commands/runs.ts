/** `yarn hone runs`: lists the runs of the home folder. */
import { join } from "node:path";
import { shareText } from "../../core/run/evaluation.js";
import { bestOf, STORE_FILE } from "../../core/run/run.js";
import { RunStore } from "../../core/run/store.js";
import { hone } from "../../core/util/program.js";
import { problemOf } from "../../insight/view/runs.js";
import { engineKinds } from "../../machine/compute.js";
import { findRuns } from "../../machine/runs/place.js";
import { RunReader } from "../../machine/runs/reader.js";
import { defineCommand } from "../command.js";

const NOTHING = { steps: 0, best: null, engines: [] as string[], problem: null };

/** A run that cannot be read is listed with the reason. */
function lookAt(folder: string) {
  try {
    if (!RunStore.recordIn(join(folder, STORE_FILE))) return NOTHING;
    using reader = RunReader.open(folder);
    const best = bestOf(reader.validations());
    const steps = reader.steps().at(-1)?.step ?? 0;
    const engines = engineKinds(reader.devices());
    return { ...NOTHING, steps, engines, best: best ? { step: best.step, ...best.result } : null };
  } catch (error) {
    return { ...NOTHING, problem: problemOf(error) };
  }
}

export const runsCommand = defineCommand({
  name: "runs",
  async run({ home }, io) {
    const runs = findRuns(home).map(({ project, name, folder, changed }) => {
      return { project, run: name, ...lookAt(folder), changed: new Date(changed).toISOString(), folder };
    });
    if (runs.length === 0) io.log(`there are no runs in ${home}; \`${hone("train")}\` makes one`);
    for (const { project, run, steps, best, engines, problem, changed } of runs) {
      if (problem !== null) {
        io.log(`${project}/${run}  cannot be read: ${problem}`);
        continue;
      }
      const success = best ? `best after step ${best.step}: success ${shareText(best)}` : "not validated yet";
      const played = engines.length > 0 ? `  played by ${engines.join(", ")}` : "";
      // Sweden's is "2031-02-03 16:05".
      const when = new Date(changed).toLocaleString("sv", { dateStyle: "short", timeStyle: "short" });
      io.log(`${project}/${run}  ${steps} ${steps === 1 ? "step" : "steps"}  ${success}${played}  ${when}`);
    }
    return runs;
  },
});
