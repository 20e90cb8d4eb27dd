/** Rollouts and agents on worker threads that share vLLM servers (stand-ins), one of which is killed again and again. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PlayerSpec } from "../../../src/core/rollout/player.js";
import { packageRoot } from "../../../src/core/util/paths.js";
import { joinOptions, loadEngine } from "../../../src/engine/factory.js";
import { playTask, support } from "../../agent/support/playing.js";
import { type StandIn, startStandIn, vllmOptions } from "./support.js";

let servers: StandIn[];
beforeAll(async () => {
  servers = await Promise.all([startStandIn(), startStandIn()]);
});
afterAll(() => Promise.all(servers.map((server) => server.kill())));

async function opened() {
  const options = vllmOptions(servers);
  const engine = await loadEngine(options);
  const player: PlayerSpec = {
    ...{ kind: "engine", sampling: { temperature: 1 }, adapter: null },
    engine: joinOptions(options, engine),
  };
  return { engine, player };
}

const scenarios = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: `m${i}`, split: "train" as const, question: "When is it?" }));

it("an agent of the task plays through its endpoint, token for token", async () => {
  const { engine, player } = await opened();
  const { groups, failures } = await playTask(support("mail-ai-sdk.ts"), scenarios(2), { player, concurrency: 2 });
  await engine.close();
  expect(failures).toEqual([]);
  for (const { tokens } of groups.flat()) {
    expect(tokens?.sampled.some((sampled) => sampled === 1)).toBe(true);
    expect(tokens?.logprobs.some((logprob) => logprob < 0)).toBe(true);
  }
});

it("an agent's frozen base is the servers' own base model, in whose turns no form is enforced", async () => {
  const { engine, player } = await opened();
  for (const question of ["asks both", "asks for a form of its own"]) {
    const asked = [{ id: "s", split: "train" as const, question }];
    const { groups, failures } = await playTask(support("base.ts"), asked, { player });
    expect(failures).toEqual([]);
    expect(groups.flat()[0]?.agent).toMatchObject({ completions: 1, base_calls: 1 });
  }
  await engine.close();
});

it("every rollout is played once, whichever server is killed while they run", async () => {
  const { engine, player } = await opened();
  let over = false;
  const killing = (async () => {
    let kills = 0;
    for (let turn = 0; !over && kills < 5; turn = 1 - turn) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      const { url, kill } = servers[turn] as StandIn;
      await kill();
      kills++;
      servers[turn] = await startStandIn({}, Number(new URL(url).port));
      await expect.poll(() => engine.info.replicas).toBe(2);
    }
    return kills;
  })();
  const asked = scenarios(24);
  const { groups, failures } = await playTask(join(packageRoot, "examples/arithmetic.ts"), asked.map(arithmetic), {
    ...{ player, groupSize: 4, concurrency: 8 },
  });
  over = true;
  expect(await killing).toBeGreaterThan(0);
  await engine.close();
  expect(failures).toEqual([]);
  expect(groups.map((group) => group.length)).toEqual(asked.map(() => 4));
  expect(new Set(groups.flat().map(({ id }) => id)).size).toBe(96);
});

const arithmetic = ({ id, split }: { id: string; split: "train" }, i: number) => ({
  ...{ id, split, question: `What is ${i} + 2?`, start: i, steps: [{ operator: "add", by: 2 }] },
});
