import { join } from "node:path";
import { expect, it } from "vitest";
import { playRollout } from "../../src/core/rollout/rollout.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";
import { limits } from "./limits.js";

it("the capitals are named by the expert; silence and a long answer earn less than the right one", async () => {
  const task = await loadTask(join(packageRoot, "examples/capitals/task.ts"));
  const scenarios = await task.scenarios({});
  expect(scenarios).toHaveLength(10);
  for (const scenario of scenarios) {
    const rewardOf = async (text?: string) => {
      const player = text === undefined ? task : { ...task, expert: () => [text][Symbol.iterator]() as never };
      const session = new ExpertSession(player, scenario, new Random("expert"), {});
      const signal = new AbortController().signal;
      return (await playRollout({ task, scenario, env: undefined, session, limits, signal })).reward;
    };
    expect(await rewardOf()).toMatchObject({ success: true });
    expect((await rewardOf("")).reward).toBeLessThan(0.25);
    expect((await rewardOf("Paris, Madrid, Rome, Tokyo")).success).toBe(false);
  }
});
