/** The options of the objective: the rollouts an update uses, and its loss. Part of options.ts. */

import { declareOptions } from "../core/config/config.js";
import { choice, flag, inGroup, real, whole } from "../core/config/option.js";
import {
  advantageEstimators,
  boundText,
  importanceModes,
  objectiveNames,
  objectivesText,
} from "../core/learn/objectives.js";
import { hone } from "../core/util/program.js";

const MANY = Number.MAX_SAFE_INTEGER;

const objectiveOptions = declareOptions(
  inGroup("Objective", ["train"], {
    loss: choice(objectiveNames, `${objectivesText()}.`, { default: "dapo", run: "identity" }),
    advantages: choice(
      advantageEstimators,
      "A rollout's reward minus its group's mean, divided by the group's standard deviation (grpo) or not (dr-grpo); rloo: minus the mean of the group's others (arXiv 2402.14740).",
      { defaultText: "that of the paper of --loss", run: "identity", determined: true },
    ),
    stdFloor: real(0, 1, "Added to the standard deviation by which --advantages grpo divides.", {
      default: 0.1,
      run: "identity",
    }),
    clipLow: real(0, 1, "The policy ratio is clipped below 1 minus this.", {
      defaultText: boundText("clipLow"),
      run: "identity",
    }),
    clipHigh: real(0, 10, "The policy ratio is clipped above 1 plus this.", {
      defaultText: boundText("clipHigh"),
      run: "identity",
      determined: true,
    }),
    kl: real(
      0,
      100,
      `Weight in the loss of the KL divergence to the model without an adapter, for the rollouts of all groups. In a run forked from \`${hone("sft")}\` that is the model before imitation.`,
      { default: 0, run: "identity" },
    ),
    iterations: whole(1, 10_000, "Passes over a step's batch, each with an update: μ of the GRPO paper.", {
      default: 1,
      run: "identity",
    }),
    minibatches: whole(
      1,
      1024,
      "Updates that a step's batch is divided into, by whole groups. From 2 on, π_old costs a further forward pass over all but the first.",
      { default: 1, run: "identity" },
    ),
    refill: whole(
      0,
      MANY,
      "Further scenarios that a step may play in place of those whose rollouts have equal rewards (DAPO's dynamic sampling).",
      { default: 0, run: "identity" },
    ),
    rest: whole(
      0,
      MANY,
      "Epochs that a scenario sits out whose last group had equal rewards, or that is outside --difficulty. 0: none, and those outside --difficulty are out for good.",
      { default: 0, run: "identity" },
    ),
    maskTruncated: flag("Do not train on rollouts that a limit ended; they still count in their group's mean.", {
      default: false,
      run: "identity",
    }),
    importanceSampling: choice(
      importanceModes,
      "Weight of a token: the ratio of the learner's to the engine's probability, of the token or of its rollout (sequence). Weights outside the bounds become the bound (truncate) or 0 (mask).",
      { default: "token-truncate", run: "identity" },
    ),
    importanceMin: real(0, 1, "Lower bound of that weight; 0 is none.", {
      default: 0,
      run: "identity",
    }),
    importanceMax: real(1, 1e9, "Upper bound of that weight.", { default: 2, run: "identity" }),
  }),
);

type Own = typeof objectiveOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}
