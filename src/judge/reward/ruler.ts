/** `--reward ruler`: a judge compares the rollouts of a group. */
import { createHash } from "node:crypto";
import { rubricOf } from "./judge-options.js";
import { ordinary, type RewardKind } from "./kind.js";

export const rulerKind: RewardKind = {
  ...ordinary,
  comparesByWording: false,
  name: "ruler",
  about: "a judge's scores of the group's rollouts (RULER), from 0 to 1",
  judged: true,
  // Below it scores differ by chance.
  spreadFloor: 0.05,
  contents: ({ rulerRubric }) => ({ rubric: createHash("sha256").update(rubricOf(rulerRubric)).digest("hex") }),
  open: async (context) => {
    const [{ rulerSettings }, { rulerReward }, { watchOrder }] = await Promise.all([
      import("./judge.js"),
      import("./judged.js"),
      import("./noise.js"),
    ]);
    const { settings, config, task, log } = context;
    const chosen = { ...config, ...settings };
    const asked = rulerSettings(chosen, rubricOf(settings.rulerRubric), task, settings.seed);
    const watch = watchOrder(log);
    return rulerReward(context, asked, watch);
  },
};
