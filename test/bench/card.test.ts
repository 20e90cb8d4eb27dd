/** The arithmetic of `yarn bench:card`: what it compares counts with. What it counts is test/null-card's. */
import { expect, it } from "vitest";
import type { Counts } from "../../bench/card/counts.js";
import { bandwidthOf, constants, estimate } from "../../bench/card/estimate.js";
import { type Agents, agents, ideal, promptPasses } from "../../bench/card/traffic.js";

const idealPasses = (traffic: Agents, sequences: number, rows: number) => ideal(traffic, sequences, rows).passes;

it("an ideal pass has every running turn's next token, and prompts in the rows that are left", () => {
  const alone = { groups: 1, size: 1, prompt: 600, rollouts: [[{ appended: 0, sampled: 2 }]] };
  // 511 tokens; the other 89, whose last gives a token; a token.
  expect(idealPasses(alone, 1, 512)).toBe(3);
  const tool = [
    { appended: 0, sampled: 2 },
    { appended: 3, sampled: 2 },
  ];
  expect(idealPasses({ ...alone, rollouts: [tool] }, 1, 512)).toBe(5);
  // Another group's prompt goes beside the first's tokens, and both end with the same pass where there is a place for both.
  const two = { groups: 2, size: 1, prompt: 100, rollouts: [tool, tool] };
  expect(idealPasses(two, 2, 512)).toBe(4);
  expect(idealPasses(two, 1, 512)).toBe(8);
});

it("a pool has a prompt once for a group, and every row goes through all of it", () => {
  const turn = [{ appended: 0, sampled: 1 }];
  const one = { groups: 1, size: 1, prompt: 10, rollouts: [turn] };
  // Ten rows; of a prompt the last sees ten cells, in a pool each does.
  expect(ideal(one, 1, 512)).toMatchObject({ passes: 1, ownedCells: 55, pooledCells: 100 });
  const group = { groups: 1, size: 2, prompt: 10, rollouts: [turn, turn] };
  // The second evaluates the last token for itself, in the prompt's cells.
  expect(ideal(group, 2, 512)).toMatchObject({ passes: 2, ownedCells: 65, pooledCells: 110 });
  const apart = { groups: 2, size: 1, prompt: 10, rollouts: [turn, turn] };
  expect(ideal(apart, 2, 512)).toMatchObject({ passes: 1, ownedCells: 110, pooledCells: 400 });
});

it("each result and each piece of a prompt is a pass where sequences have buffers of their own", () => {
  const turns = [
    { appended: 0, sampled: 1 },
    { appended: 513, sampled: 1 },
    { appended: 5, sampled: 1 },
  ];
  expect(promptPasses({ groups: 2, size: 1, prompt: 514, rollouts: [turns, turns] }, 512)).toBe(2 * (2 + 2 + 1));
});

it("no traffic of agents needs fewer passes than its longest rollout samples tokens", () => {
  const played = agents(128, 64);
  expect(played.rollouts).toHaveLength(128);
  const longest = Math.max(...played.rollouts.map((turns) => turns.reduce((sum, { sampled }) => sum + sampled, 0)));
  const all = idealPasses(played, 64, 512);
  expect(all).toBeGreaterThanOrEqual(longest);
  expect(idealPasses(played, 128, 512)).toBeLessThan(all);
});

it("an estimate is bytes over bandwidth where nothing else is asked, and more with every kernel, wait and copy", () => {
  // GDDR6X at 21 Gbit/s on 384 lines, by NVIDIA's Ada whitepaper: 1,008 GB/s.
  expect(bandwidthOf("4090") / 1e9).toBeCloseTo(1008, 0);
  const none: Counts = {
    passes: 1,
    promptPasses: 0,
    batches: 1,
    sampled: 1,
    prefilled: 0,
    paddingRows: 0,
    forks: 0,
    moves: 0,
    kernels: 0,
    launches: 0,
    graphLaunches: 0,
    graphCaptures: 0,
    synchronisations: 0,
    synchronisationsBy: {},
    copies: 0,
    bytesToHost: 0,
    bytesToCard: 0,
    weightBytes: 0,
    attendedCells: 0,
    ownedCells: 0,
    cellsRead: 0,
    memory: 0,
  };
  const about = { numbers: 1, cellBytes: 1, attention: 0, exact: false };
  const second = { ...none, weightBytes: constants.reached * bandwidthOf("4090") };
  expect(estimate("4090", second, about).pass.all).toBe(1000);
  const busy = { ...second, kernels: 1e5, launches: 5e4, synchronisations: 1e4, bytesToHost: constants.bus };
  const { pass } = estimate("4090", busy, about);
  expect(pass.kernels).toBeCloseTo(1000 * 5e4 * (constants.inGraph + constants.launched), 3);
  expect(pass.all).toBeCloseTo(pass.bytes + pass.kernels + pass.waits + 1000, 2);
});
