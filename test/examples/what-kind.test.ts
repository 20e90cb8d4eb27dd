import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { playRollout } from "../../src/core/rollout/rollout.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";
import { limits } from "./limits.js";

type Thing = Scenario & { readonly kind: string; readonly word: string };

let task: AnyTask;
let scenarios: readonly Thing[];
beforeAll(async () => {
  task = await loadTask(join(packageRoot, "examples/what-kind.ts"));
  scenarios = (await task.scenarios({ seed: 1 })) as Thing[];
});

const said = (scenario: Scenario, text: string) =>
  task.reward(
    {
      messages: [{ role: "assistant", content: text }],
      calls: [],
      answer: undefined,
      end: "token_limit",
      turns: 1,
      maxTurns: 1,
    },
    scenario,
    undefined,
  );

describe("the example of a pretrained model", () => {
  it("asks for each word once, in the same split whatever the seed", async () => {
    const words = scenarios.map(({ word }) => word);
    expect(new Set(words).size).toBe(words.length);
    const splits = (list: readonly Scenario[]) => new Map(list.map(({ id, split }) => [id, split]));
    const others = await task.scenarios({ seed: 2 });
    expect(others.map(({ id }) => id)).not.toEqual(scenarios.map(({ id }) => id));
    expect([...splits(others)].sort()).toEqual([...splits(scenarios)].sort());
    expect(scenarios.filter(({ split }) => split === "test").length).toBeGreaterThan(250);
  });

  it("is solved by its expert every time", async () => {
    for (const scenario of scenarios) {
      const session = new ExpertSession(task, scenario, new Random("expert", scenario.id), {});
      const { signal } = new AbortController();
      const { reward } = await playRollout({ task, scenario, env: undefined, session, limits, signal });
      expect(reward).toMatchObject({ reward: 1, success: true });
    }
  });

  it("counts a sentence that names the right kind alone, whole or cut off", async () => {
    const otter = scenarios.find(({ word }) => word === "otter") as Thing;
    for (const right of ["animal", "Animal.", "An otter is a kind of animal that li"]) {
      expect(await said(otter, right)).toMatchObject({ reward: 1, success: true });
    }
    for (const wrong of ["", "otter", "food", "Animal, food, country or tool", "It is no animal but an instrument"]) {
      expect(await said(otter, wrong)).toMatchObject({ reward: 0, success: false });
    }
  });

  it("pays neither the words of the question nor one kind for all", async () => {
    for (const scenario of scenarios) {
      expect((await said(scenario, scenario.question)).success, scenario.question).toBe(false);
    }
    const most = Math.max(
      ...[...new Set(scenarios.map(({ kind }) => kind))].map(
        (kind) => scenarios.filter((one) => one.kind === kind).length,
      ),
    );
    expect(most / scenarios.length).toBeLessThan(0.2);
  });
});
