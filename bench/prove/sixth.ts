/**
 * A sixth list, by an author who had read neither guards, lists, docs/trust.md nor tests: he had read the core, the learner but for its
 * checks, the trainer and the email task, and tried nothing, so the options by which the third and the last act are
 * another's. Four more were faults of earlier lists. Of the fifth list docs/trust.md has the counts.
 */
import { at, type Fault, FREE } from "./fault.js";

const list: readonly Omit<Fault, "outside">[] = [
  {
    name: "the email task fines a missing answer alone, and no longer a wrong one",
    family: "rewards",
    akin: true,
    patch: at(
      "src/email/reward.ts",
      "else if (!gaveUp) reward += weights.unanswered;",
      "else if (answer === undefined) reward += weights.unanswered;",
    ),
  },
  {
    name: "a group's rewards are computed in the order in which its rollouts ended, and read in that of its members",
    family: "rewards",
    patch: at("src/core/gather/gather.ts", "this.#options.onGroup?.(inOrder(done));", "this.#options.onGroup?.(done);"),
  },
  {
    name: "the task's reward is cut off at 0 where it becomes the training reward",
    family: "rewards",
    patch: at(
      "src/judge/reward/registry.ts",
      "rewards: group.map(({ reward }) => reward.reward),",
      "rewards: group.map(({ reward }) => Math.max(0, reward.reward)),",
    ),
    flags: FREE,
  },
  {
    name: "in the batch a token's rollout is the number of its group",
    family: "learner",
    patch: at(
      "src/core/learn/batch.ts",
      "each.rollouts.push(summary.trajectories);",
      "each.rollouts.push(summary.groups);",
    ),
    flags: ["--loss", "grpo"],
  },
  {
    name: "the KL term is the plain difference of the log-probabilities, whose gradient knows no base model",
    family: "learner",
    patch: at(
      "native/learner/loss.py",
      "settings.kl_coefficient * k3(tokens.new, tokens.base)",
      "settings.kl_coefficient * (tokens.new - tokens.base)",
    ),
    flags: ["--kl", "0.05"],
  },
  {
    name: "where rollouts part, the token before each that a position predicts has its gradient",
    family: "learner",
    akin: true,
    patch: at(
      "native/learner/head.py",
      "return firsts, (sources[1:] == sources[:-1]).nonzero()[:, 0] + 1",
      "return firsts, (sources[1:] == sources[:-1]).nonzero()[:, 0]",
    ),
  },
  {
    name: "Adam's two decay rates are swapped in the table of sizes",
    family: "learner",
    akin: true,
    patch: at(
      "src/core/config/sizes.ts",
      "{ betas: [0.9, 0.95], weightDecay: 0 }",
      "{ betas: [0.95, 0.9], weightDecay: 0 }",
    ),
  },
  {
    name: "the best checkpoint is that of the least validation reward",
    family: "storage",
    akin: true,
    patch: at(
      "src/core/run/run.ts",
      "(best && best.result.reward >= row.result.reward ? best : row),",
      "(best && best.result.reward <= row.result.reward ? best : row),",
    ),
    flags: ["--validate-every", "1", "--validate-n", "8", "--learning-rate", "5e-3"],
  },
];

export const sixth: readonly Fault[] = list.map((one) => ({ ...one, outside: "sixth" }));
