/**
 * A training loop of one's own, with hone as a library: the tiny model, the email task, and rewards given here.
 *
 *     yarn hone build-db --mailboxes 40          # invented mail and questions about it, once
 *     yarn hone exec examples/train.ts 10        # ten steps; again goes on after the last one
 */
import { evaluate, gather, openModel, openRun, openTask, Random, type Trajectory, train } from "@hone-rl/hone";

const [steps = 10, groups = 8, held = 40] = process.argv.slice(2).map(Number);

/** Right is best, in few turns; of the wrong answers those are better for which the mail was at least searched. */
function score({ reward, calls, turns, maxTurns }: Trajectory): number {
  if (reward.success) return 1 - (0.2 * turns) / maxTurns;
  return calls.some(({ name, outcome }) => name === "search_inbox" && outcome === "ok") ? 0.2 : 0;
}

const task = await openTask("email", { seed: 1 });
const model = await openModel("tiny", { gpu: "off", maxTurns: 6, log: console.log });
const run = await openRun(model, task, { run: "own-loop", steps, log: console.log });
const heldOut = task.test.slice(0, held);

const show = (name: string, { success, low, high, n }: Awaited<ReturnType<typeof evaluate>>) =>
  console.log(
    `${name}: ${(100 * success).toFixed(0)} % (${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)}, n=${n})`,
  );

try {
  show("before", await evaluate(model, task, heldOut));
  while (run.step < steps) {
    const step = run.step + 1;
    const scenarios = new Random("scenarios", step).sample(task.train, groups);
    const played = await gather(model, task, scenarios, { groupSize: 8, step });
    const rewards = played.groups.map((group) => group.map(score));
    const { training_reward: mean, success, skipped } = await train(run, played.groups, { rewards });
    console.log(`step ${step}: reward ${mean?.toFixed(2)}, success ${success.toFixed(2)} ${skipped ?? ""}`);
  }
  show("after", await evaluate(model, task, heldOut));
  console.log(`adapter: ${run.adapter}`);
} finally {
  await run.close();
  await model.close();
}
