import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { playRollout } from "../../src/core/rollout/rollout.js";
import type { Session } from "../../src/core/rollout/session.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";

type Game = Scenario & { readonly lakes: readonly string[]; readonly paying: string };

const limits = {
  maxTurns: 6,
  maxTokens: 10,
  turnSeconds: 10,
  toolSeconds: 10,
  rolloutSeconds: 60,
  onToolError: "observe",
} as const;

let task: AnyTask;
let games: readonly Game[];
beforeAll(async () => {
  task = await loadTask(join(packageRoot, "examples/fishing.ts"));
  games = (await task.scenarios({ seed: 3 })) as readonly Game[];
});

const play = (session: Session, scenario: Scenario) =>
  playRollout({ task, scenario, env: undefined, session, limits, signal: new AbortController().signal });
const expert = (scenario: Scenario, mistakes: number) =>
  play(new ExpertSession(task, scenario, new Random("expert", scenario.id), { mistakes }), scenario);

/** A player that names these lakes, then the last of them for ever. */
function naming(lakes: readonly string[]): Session {
  let turn = 0;
  return {
    turn: async () => ({
      content: lakes[Math.min(turn++, lakes.length - 1)] as string,
      calls: [],
      completionTokens: 1,
      stop: "stop",
    }),
    respond: () => undefined,
    close: () => undefined,
  };
}

describe("the fishing example", () => {
  it("has the same games for the same seed, and the lakes of a test in no training of any seed", async () => {
    const other = (await task.scenarios({ seed: 4 })) as readonly Game[];
    expect(await task.scenarios({ seed: 3 })).toEqual(games);
    expect(other).not.toEqual(games);
    expect(new Set(games.map(({ id }) => id)).size).toBe(1400);
    expect(games.filter(({ split }) => split === "test")).toHaveLength(280);
    const choices = (of: readonly Game[], split: string) =>
      new Set(of.filter((game) => game.split === split).map(({ lakes }) => [...lakes].sort().join()));
    const tested = choices(games, "test");
    for (const choice of [...choices(games, "train"), ...choices(other, "train")])
      expect(tested.has(choice)).toBe(false);
    // Every lake is in both.
    expect(new Set([...tested].flatMap((choice) => choice.split(","))).size).toBe(8);
  });

  it("has the fish in each of the four lakes equally often, wherever the question names it", () => {
    const places = games.map(({ lakes, paying }) => lakes.indexOf(paying));
    expect([0, 1, 2, 3].map((place) => places.filter((one) => one === place).length)).toEqual([350, 350, 350, 350]);
    for (const { question, lakes } of games) expect(question.match(/[A-Z]\w+/g)?.slice(1)).toEqual(lakes);
  });

  it("is solved by its expert every time", async () => {
    for (const game of games.slice(0, 200)) {
      const { end, reward, turns } = await expert(game, 0);
      expect({ end, ...reward }).toEqual({ end: "answered", reward: 1, success: true, parts: { fish: 3 } });
      expect(turns).toBe(3 + game.lakes.indexOf(game.paying));
    }
  });

  it("pays a blind angler by luck alone", async () => {
    const played = await Promise.all(games.slice(0, 400).map((game) => expert(game, 1)));
    const solved = played.filter(({ reward }) => reward.success).length / played.length;
    // Three or more of six casts at a quarter each are 16.9 %; four standard errors of 400 games.
    expect(Math.abs(solved - 0.169)).toBeLessThan(0.075);
    const after = { fish: [0, 0], nothing: [0, 0] };
    for (const { messages } of played) {
      const said = messages.slice(2).map(({ content }) => content);
      for (let i = 0; i + 2 < said.length; i += 2) {
        const [stayed, all] = after[said[i + 1] as "fish" | "nothing"] as [number, number];
        after[said[i + 1] as "fish" | "nothing"] = [stayed + (said[i] === said[i + 2] ? 1 : 0), all + 1];
      }
    }
    // It stays in a quarter of the cases, after fish as after nothing.
    for (const [stayed, all] of Object.values(after) as [number, number][])
      expect(Math.abs(stayed / all - 0.25)).toBeLessThan((4 * 0.433) / Math.sqrt(all));
  });

  it("pays for each fish, up to three, and nothing for lakes that are not in the question", async () => {
    const game = games[0] as Game;
    const dry = game.lakes.filter((lake) => lake !== game.paying);
    const rewardOf = async (...lakes: string[]) => (await play(naming(lakes), game)).reward.reward;
    expect(await rewardOf(...dry)).toBe(0);
    expect(await rewardOf(game.paying, ...dry)).toBeCloseTo(1 / 3, 10);
    expect(await rewardOf(game.paying, game.paying, dry[0] as string)).toBeCloseTo(2 / 3, 10);
    expect(await rewardOf(`${game.paying} ${game.paying} ${game.paying}`)).toBe(0);
    const { messages } = await play(naming(["Superior", ...dry]), game);
    expect(messages.slice(3, 6).map(({ content }) => content)).toEqual(["no lake", dry[0], "nothing"]);
  });
});
