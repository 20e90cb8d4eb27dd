/** Which scenarios an evaluation plays, and what is said of it. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { optionsOf, withDefaults } from "../../src/core/config/config.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { conditionsOf } from "../../src/insight/evaluate/conditions.js";
import { chatOfRun } from "../../src/insight/evaluate/entrants.js";
import type { OpenCheckpoints } from "../../src/machine/runs/checkpoint-choice.js";
import { scenariosFingerprint } from "../../src/scenarios/held-out.js";
import { loadTask, scenariosOf } from "../../src/scenarios/load.js";
import { taskOptionsOf } from "../../src/scenarios/task-options.js";

const home = mkdtempSync(join(tmpdir(), "hone-conditions-"));
const reference = join(packageRoot, "test/train/support/vowels-task.ts");

/** A run whose validations play 5 of the task's 8 test scenarios. */
async function run(seed = 1, validateN = 5): Promise<OpenCheckpoints> {
  const task = await loadTask(reference);
  const all = await scenariosOf(task, taskOptionsOf(task, { home, seed: 1 }, {}, {}));
  const options = { task: reference, seed, validateN, accuracy: "task", reward: "task", context: 64 };
  const contents = { task: task.name, scenarios: scenariosFingerprint(all) };
  const record = { name: "r", created: "2031-01-01T00:00:00Z", options, contents };
  return { folder: home, name: "r", record, chosen: [], highestMismatch: 0 } as OpenCheckpoints;
}

it.each([
  [{ n: 20, fresh: true }, 3, ["3 of the 20 scenarios asked for: there are no more that no validation has played"]],
  [{ n: 20 }, 8, ["8 of the 20 scenarios asked for: there are no more"]],
  [
    { n: 20, fresh: true, split: "train" },
    16,
    ["16 of the 20 scenarios asked for: there are no more that no validation has played"],
  ],
  [{ n: 3, fresh: true }, 3, []],
  [{ fresh: true }, 3, []],
])("with %j plays %i scenarios", async (given, playing, lines) => {
  const said: string[] = [];
  const io = { log: (line: string) => void said.push(line), signal: new AbortController().signal };
  const config = withDefaults(optionsOf("eval"), { ...given, home });
  const first = await run();
  const { scenarios } = await conditionsOf(config, given, { run: first, runs: [first] }, io);
  expect(scenarios).toHaveLength(playing);
  expect(said).toEqual(lines);
});

it("with --fresh leaves out what any of the compared runs was validated on", async () => {
  const config = withDefaults(optionsOf("eval"), { fresh: true, home });
  const io = { log: () => undefined, signal: new AbortController().signal };
  const playedWith = async (runs: readonly OpenCheckpoints[]) => {
    const { scenarios } = await conditionsOf(config, { fresh: true }, { run: runs[0] ?? null, runs }, io);
    return scenarios.map(({ id }) => id);
  };
  const [one, other] = [await run(1), await run(2, 2)];
  const alone = [await playedWith([one]), await playedWith([other])] as const;
  expect(alone.map((ids) => ids.length)).toEqual([3, 6]);
  expect(await playedWith([one, other])).toEqual(alone[0].filter((id) => alone[1].includes(id)));
});

it("says so where validations have played every scenario", async () => {
  const config = withDefaults(optionsOf("eval"), { fresh: true, home });
  const io = { log: () => undefined, signal: new AbortController().signal };
  const all = await run(1, 8);
  await expect(conditionsOf(config, { fresh: true }, { run: all, runs: [all] }, io)).rejects.toThrow(
    /^--fresh leaves none: all 8 of the test split were in validations\ngive the task more, or leave --fresh out/,
  );
});

it("refuses what --fresh cannot tell: scenarios that a run was not trained on, and a split that is empty", async () => {
  const io = { log: () => undefined, signal: new AbortController().signal };
  const known = await run();
  const contents = { ...known.record.contents, scenarios: "others" };
  const other = { ...known, name: "o", record: { ...known.record, contents } };
  const playing = (given: object, ...runs: OpenCheckpoints[]) =>
    conditionsOf(withDefaults(optionsOf("eval"), { ...given, home }), given, { run: known, runs }, io);
  await expect(playing({ fresh: true }, known, other)).rejects.toThrow(
    "--fresh: these are not the scenarios that o was trained on: all of them are fresh",
  );
  await expect(playing({ split: "none" }, known)).rejects.toThrow("the task has no scenarios in the split none");
});

it("plays a run by its own settings of the template, unless others are given", () => {
  const own = { toolFormat: "hermes", templateArg: { enable_thinking: false }, maxThinkingTokens: 64 } as const;
  const given = { toolFormat: "mistral", templateArg: undefined, maxThinkingTokens: undefined };
  expect(chatOfRun(own, {}, { toolFormat: "auto" })).toEqual(own);
  expect(chatOfRun(own, given, given)).toEqual({ ...own, toolFormat: "mistral" });
});
