/** Guards say what they demand, and the transaction does it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { guardsList } from "../../bench/docs/guards-list.js";
import { EngineOutOfMemory } from "../../src/core/engine/errors.js";
import { type Acts, demanding, type Guard, heed, type Moments } from "../../src/core/train/guard.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type GuardSources, guards, guardsOf, learnerGuards } from "../../src/guards/guard-list.js";
import { trajectoryOf } from "./support/fakes.js";

const says = (name: string, afterUpdate: NonNullable<Guard["afterUpdate"]>): Guard => ({ name, sees: "", afterUpdate });

/** What was done when these guards were asked, with the error that stopped it. */
async function acted<M extends keyof Moments>(list: readonly Guard[], moment: M, seen: Moments[M]) {
  const did: string[] = [];
  const acts: Acts = {
    note: (text) => did.push(text),
    dropRollouts: () => did.push("dropped"),
    takeBack: () => did.push("taken back"),
  };
  const error = await heed(list, moment, seen, acts).then(() => undefined, String);
  return { did, error };
}

describe("what guards demand", () => {
  const update = {} as Moments["afterUpdate"];
  const stop = (demand: "refuse" | "drop these rollouts" | "take the commit back", words: string) =>
    says(words, () =>
      demanding(demand, () => {
        throw new HoneError(words);
      }),
    );

  it.each([
    ["refuse", []],
    ["drop these rollouts", ["dropped"]],
    ["take the commit back", ["taken back"]],
  ] as const)("%s: is done once, the error is its own, and no later guard is asked", async (demand, did) => {
    const list = [says("a", () => undefined), stop(demand, "first"), stop("refuse", "second")];
    expect(await acted(list, "afterUpdate", update)).toEqual({ did, error: "HoneError: first" });
  });

  it("a note is told, and the step goes on to the next", async () => {
    const list = [says("a", () => ({ demand: "note", text: "look" })), stop("refuse", "after it")];
    expect(await acted(list, "afterUpdate", update)).toEqual({ did: ["look"], error: "HoneError: after it" });
  });

  it("a fault of a guard's own is no finding: nothing is dropped", async () => {
    const broken = says("a", () =>
      demanding("drop these rollouts", () => {
        throw new TypeError("mine");
      }),
    );
    expect(await acted([broken], "afterUpdate", update)).toEqual({ did: [], error: "TypeError: mine" });
  });

  it("an adapter that cannot be loaded takes the commit back, a lack of memory does not", async () => {
    const seen = (error: unknown) => ({
      ...{ loaded: { error }, settings: update.settings, before: [], adapter: "step 3", consequence: "" },
    });
    expect((await acted(guards, "afterWaking", seen(new HoneError("damaged")))).did).toEqual(["taken back"]);
    expect((await acted(guards, "afterWaking", seen(new EngineOutOfMemory("full")))).did).toEqual([]);
  });
});

it("the draws of a step count with those before it, and its rate follows from their number", async () => {
  const { tokens, ...one } = trajectoryOf();
  const said = { tokens: 3, digest: 0, temperature: 1, truncated: false, foreign: false, seed: 1, drawn: [] };
  const evaluated = { ...said, draws: { tokens: 10, deviation: 0, variance: 10 } };
  const trajectory = { ...one, tokens: { ids: [], sampled: [], logprobs: [], ...tokens, evaluated } };
  const groups = [{ members: [{ trajectory }], brokenOff: [] }];
  const schedule = { learningRate: 2, finalLearningRate: 1, warmup: 0, steps: 2 };
  const before = (draws: object | null) =>
    ({
      groups,
      steps: [{ step: 0, metrics: { draws } }],
      learningRate: 2,
      schedule,
    }) as unknown as Moments["beforeUpdate"];
  expect(await acted(guards, "beforeUpdate", before(null))).toEqual({ did: [], error: undefined });
  const often = { tokens: 10_000, deviation: 800, variance: 10_000 };
  expect(await acted(guards, "beforeUpdate", before(often))).toEqual({
    did: ["dropped"],
    error: expect.stringContaining("over 10010 draws of this run unlikely ones come too often"),
  });
});

it("a loss that would be a mean over others than the step has is refused", async () => {
  const seen = { file: "none", batch: [], seed: 1, whole: true, groups: [], further: 0 };
  expect(await acted(guards, "afterBatch", { ...seen, mean: { rollouts: 1, sampledTokens: 1 } })).toEqual({
    did: [],
    error: expect.stringContaining("the loss would be a mean over 1 rollouts and 1 tokens, and the step has 0 and 0"),
  });
});

it("each guard has a name of its own and a line in docs/trust.md", () => {
  const names = [...guardsOf({} as GuardSources), ...learnerGuards].map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const page = readFileSync(join(packageRoot, "docs/trust.md"), "utf8");
  expect(page, "`yarn docs` writes it").toContain(guardsList());
  for (const name of names) expect(page).toContain(`- **${name}**: `);
});
