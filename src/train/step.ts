/**
 * One training step: GRPO (Shao et al. 2024, arXiv 2402.03300) on whole rollouts of many turns with tools.
 *
 * Left out of GRPO:
 * - rewards of single turns (its "process supervision"): a tool call is judged by the rollout's end;
 * - further updates on the same batch, unless `--epochs` or `--minibatches` asks for them: after one the policy is no
 *   longer the one that played, which the clipped ratio then bounds. With one update that ratio is 1;
 * - the KL penalty to the base model, unless `--kl` asks for it: a LoRA adapter with few steps stays near it, and DAPO
 *   (arXiv 2503.14476) and Dr. GRPO (arXiv 2503.20783) omit it too.
 *
 * Other objectives are in one table (src/config/objectives.ts), as records that are sent to the learner.
 *
 * Added to it: groups with equal rewards are left out of the batch, though not of the mean, or with `--refill` replaced (DAPO); rollouts that ended by no fault of
 * the model do not count in their group (src/reward/comparable.ts); each token is weighted by the ratio of the learner's to
 * the engine's probability (native/learner/importance.py).
 */
import type { StepRow } from "../run/index.js";
import type { CreditedGroup } from "./credit.js";
import type { PlayedGroups, Stages } from "./stages.js";

/**
 * Before the commit everything can be repeated, reusing the rollouts that were saved; after it the update is kept, even when
 * memory does not suffice to wake the policy. The process may end at any moment.
 */
export async function trainStep({
  sample,
  play,
  reward,
  advantages,
  update,
  publish,
  commit,
  wake,
}: Stages): Promise<StepRow> {
  const groups: CreditedGroup[] = [];
  const played: PlayedGroups[] = [];
  for (;;) {
    const scenarios = sample(groups);
    if (scenarios.length === 0) break;
    const now = await play(scenarios);
    const rewards = await reward(now.groups);
    groups.push(...advantages(now.groups, rewards));
    played.push(now);
  }
  const learnt = await update(groups);
  const policy = await publish(learnt);
  const row = commit({ played, groups, learnt, policy });
  return wake(row);
}
