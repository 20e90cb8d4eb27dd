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
    const rubric = rubricOf(settings.rulerRubric);
    return rulerReward(
      context,
      rulerSettings({ ...config, ...settings }, rubric, task, settings.seed),
      watchOrder(log),
    );
  },
};
