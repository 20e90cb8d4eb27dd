/** `--reward ruler`: a judge compares the rollouts of a group. */
import { createHash } from "node:crypto";
import { rubricOf } from "./judge-options.js";
import { ordinary, type RewardCode } from "./kind.js";

export const rulerCode: RewardCode = {
  ...ordinary,
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
