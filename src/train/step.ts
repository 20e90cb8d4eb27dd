/**
 * One training step: GRPO (Shao et al. 2024, arXiv 2402.03300) on whole rollouts of many turns with tools.
 *
 * Left out of GRPO:
 * - rewards of single turns (its "process supervision"): what a tool call was worth shows in the rollout's end;
 * - further updates on the same batch, unless `--epochs` or `--minibatches` asks for them: after one the policy is no
 *   longer the one that played, which the clipped ratio then bounds. With one update that ratio is 1;
 * - the KL penalty to the base model, unless `--kl` asks for it: a LoRA adapter with few steps stays near, and DAPO
 *   (arXiv 2503.14476) and Dr. GRPO (arXiv 2503.20783) do without it too.
 *
 * Other objectives than GRPO's stand in one table (src/config/objectives.ts), as records that the learner is sent.
 *
 * Added to it: groups whose rewards do not differ are left out, or with `--refill` replaced (DAPO), rollouts that ended by no fault of the model have
 * no part in their group (src/reward/comparable.ts), and each token is weighed by how likely the learner finds it over how
 * likely the engine did (native/learner/importance.py).
 */
import type { StepRow } from "../run/index.js";
import type { Taught } from "./lessons.js";
import type { PlayedGroups, Stages } from "./stages.js";

/**
 * Until the commit all that the step did can be done again, and the rollouts it had saved are used again; from then on
 * its update is kept, also when there is no memory to wake the policy. The process may end at any moment.
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
  const groups: Taught[] = [];
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
