/** The options of the objective: the rollouts an update uses, and its loss. Part of options.ts. */

import { hone } from "../util/index.js";
import { advantageEstimators, boundText, importanceModes, objectiveNames, objectivesText } from "./objectives.js";
import { choice, flag, real, whole } from "./option.js";

const MANY = Number.MAX_SAFE_INTEGER;

export const objectiveOptions = {
  loss: choice(objectiveNames, `${objectivesText()}.`, { default: "dapo" }),
  advantages: choice(
    advantageEstimators,
    "A rollout's reward minus the mean of its group, divided by the group's standard deviation (grpo) or not (dr-grpo, Liu et al. 2025); rloo: minus the mean of the others of its group (leave-one-out, arXiv 2402.14740).",
    { defaultText: "that of the paper of --loss" },
  ),
  clipLow: real(0, 1, "The policy ratio is clipped below 1 minus this.", { defaultText: boundText("clipLow") }),
  clipHigh: real(0, 10, "The policy ratio is clipped above 1 plus this.", { defaultText: boundText("clipHigh") }),
  kl: real(
    0,
    100,
    `Weight of the KL divergence to the base model in the loss, for the rollouts of all groups, whether their rewards differ or not. The base is the model file without any adapter, also in a run that was forked from \`${hone("sft")}\`: the term then pulls towards the model before imitation.`,
    { default: 0 },
  ),
  epochs: whole(1, 10_000, "Passes over the data: a step's batch in training, the rollouts of a file in sft.", {
    default: 1,
  }),
  minibatches: whole(
    1,
    1024,
    "Number of updates that a step's batch is divided into, by whole groups, with the seed; fewer if fewer groups are trainable. From 2 on, π_old costs a further forward pass over all but the first.",
    { default: 1 },
  ),
  refill: whole(
    0,
    MANY,
    "Groups a step may play in place of groups whose rewards do not differ (DAPO's dynamic sampling): other scenarios of the train split, drawn by the seed.",
    { default: 0 },
  ),
  maskTruncated: flag(
    "Do not train on rollouts that a limit ended (--max-turns, --max-tokens, --context); they still count in their group's mean.",
    { default: false },
  ),
  importanceSampling: choice(
    importanceModes,
    "Weight of a token: the ratio of the learner's to the engine's probability, of the token or of its whole rollout (sequence). truncate: weights outside the bounds become the bound. mask: they become 0. off: all are 1.",
    { default: "token-truncate" },
  ),
  importanceMin: real(0, 1, "Lower bound of that weight; 0 is none.", { default: 0 }),
  importanceMax: real(1, 1e9, "Upper bound of that weight.", { default: 2 }),
};

export const objectiveOptionNames = Object.keys(objectiveOptions) as readonly (keyof typeof objectiveOptions)[];
