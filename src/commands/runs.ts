/** `yarn hone runs`: lists the runs of the home folder. */
import { join } from "node:path";
import { defineCommand } from "../config/index.js";
import { shareText } from "../report/index.js";
import { bestOf, findRuns, RunStore, STORE_FILE } from "../run/index.js";
import { hone } from "../util/index.js";

function lookAt(folder: string) {
  const file = join(folder, STORE_FILE);
  const record = RunStore.recordIn(file);
  if (!record) return { steps: 0, best: null };
  const store = RunStore.read(file);
  try {
    const best = bestOf(store.validations());
    return { steps: store.lastStep().step, best: best ? { step: best.step, ...best.result } : null };
  } finally {
    store.close();
  }
}

export const runsCommand = defineCommand({
  name: "runs",
  summary: "List the runs of training, the newest first.",
  example: hone("runs"),
  options: ["home"],
  async run({ home }, io) {
    const runs = findRuns(home).map(({ project, name, folder, changed }) => {
      const { steps, best } = lookAt(folder);
      return { project, run: name, steps, best, changed: new Date(changed).toISOString(), folder };
    });
    if (runs.length === 0) io.log(`there are no runs in ${home}; \`${hone("train")}\` makes one`);
    for (const { project, run, steps, best, changed } of runs) {
      const success = best ? `best after step ${best.step}: success ${shareText(best)}` : "not validated yet";
      io.log(`${project}/${run}  ${steps} steps  ${success}  ${changed.slice(0, 16).replace("T", " ")}`);
    }
    return runs;
  },
});
