/**
 * One training step: GRPO (Shao et al. 2024, arXiv 2402.03300) on whole rollouts of many turns with tools.
 *
 * Differences from the paper, by default:
 * - the loss is a mean over the sampled tokens of all rollouts, as in DAPO (arXiv 2503.14476). The paper's is a mean over each
 *   rollout's own tokens and then over the rollouts: `--loss grpo`;
 * - the ratio is bounded by 1.28 from above and 0.8 from below, as in DAPO; the paper has one ε for both: `--loss grpo`;
 * - a floor is added to the standard deviation by which advantages are divided, 0.1 for checkable rewards, so that a small
 *   spread does not become advantages of size one (src/core/learn/advantages.ts);
 * - no KL penalty to the base model, unless `--kl` asks for it: a LoRA adapter with few steps stays near it, and DAPO and
 *   Dr. GRPO (arXiv 2503.20783) omit it too;
 * - one update of a batch, unless `--iterations` or `--minibatches` asks for more: after one the policy is no longer the one that
 *   played, which the clipped ratio then bounds. With one update that ratio is 1;
 * - with `--staleness` an earlier policy plays (version.ts, overlap.ts);
 * - no rewards of single turns (its "process supervision"): a tool call is judged by the rollout's end.
 *
 * Added to it: groups with equal rewards are left out of the batch, though not of the mean, or with `--refill` replaced (DAPO);
 * rollouts that ended by no fault of the model do not count in their group (src/core/reward/comparable.ts); each token is weighted by
 * the ratio of the learner's to the engine's probability (native/learner/importance.py).
 *
 * Other objectives are in one table (src/core/learn/objectives.ts), as records that are sent to the learner.
 */
import type { StepRow } from "../run/records.js";
import type { CreditedGroup } from "./credit.js";
import type { LearnStages, PlayRound, PlayStages, Stages } from "./stages.js";

/**
 * Before the commit everything can be repeated, reusing the rollouts that were saved; after it the update is kept, even when
 * memory does not suffice to wake the policy, unless the engine is seen to play another adapter (settle.ts). The process may end at any moment.
 */
export async function trainStep(stages: Stages): Promise<StepRow> {
  return stages.wake(await learnStep(stages, await playStep(stages)));
}

export interface PlayedStep {
  readonly groups: readonly CreditedGroup[];
  readonly rounds: readonly PlayRound[];
}

export async function playStep({ sample, play, reward, advantages }: PlayStages): Promise<PlayedStep> {
  const groups: CreditedGroup[] = [];
  const rounds: PlayRound[] = [];
  for (;;) {
    const scenarios = sample(groups);
    if (scenarios.length === 0) break;
    const now = await play(scenarios);
    const rewards = await reward(now.groups);
    groups.push(...(await advantages(now.groups, rewards)));
    rounds.push(now);
  }
  return { groups, rounds };
}

export async function learnStep({ update, publish, commit }: LearnStages, { groups, rounds }: PlayedStep) {
  const learnt = await update(groups);
  const inForce = await publish(learnt);
  return commit({ rounds, groups, learnt, inForce });
}
