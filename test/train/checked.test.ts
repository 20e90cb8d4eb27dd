/** What a program without types gets wrong in a call of the library is one line, and nothing is played by it. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { checkScenarios } from "../../src/trainer/checked.js";
import { evaluate } from "../../src/trainer/evaluate.js";
import { gather } from "../../src/trainer/gather.js";
import { type Model, openModel } from "../../src/trainer/model.js";
import { ruler } from "../../src/trainer/ruler.js";
import { openRun, planRun, trainRun } from "../../src/trainer/run.js";
import { sft } from "../../src/trainer/sft.js";
import { openTask } from "../../src/trainer/task.js";
import { train } from "../../src/trainer/train.js";

const file = join(packageRoot, "test/train/support/vowels-task.ts");
const task = await openTask(file);
const model = { engine: {} } as Model;
const run = {} as never;
const some = task.train.slice(0, 1);

it.each<readonly [string, () => Promise<unknown>, RegExp]>([
  ["a task that is none", () => openTask(undefined as never), /^openTask\(\): its first argument is the path/],
  [
    "a misspelt option of a task",
    () => openTask(file, { sets: {} } as never),
    /^openTask\(\) has "sets", .*: did you mean "set"\?$/,
  ],
  ["a seed in words", () => openTask(file, { seed: "one" as never }), /seed must be a whole number .* and is one$/],
  ["no options at all", () => openTask(file, null as never), /^openTask\(\): its options must be an object$/],
  ["a model that is none", () => openModel(5 as never), /^openModel\(\): its first argument is the name of a model/],
  [
    "arguments in another order",
    () => gather(task as never, model as never, some),
    /^gather\(\): its first argument must/,
  ],
  ["no task", () => gather(model, undefined as never, some), /its second argument must be a task of openTask\(\)$/],
  ["no scenarios", () => gather(model, task, undefined as never), /its third argument must be a list of scenarios/],
  ["an empty list of them", () => gather(model, task, []), /gather\(\): its list of scenarios is empty/],
  ["ids for scenarios", () => evaluate(model, task, ["vowels-1"] as never), /^evaluate\(\): its third argument must/],
  [
    "an empty list",
    async () => checkScenarios("validate()", "first", []),
    /^validate\(\): its list of scenarios is empty/,
  ],
  ["a misspelt option of play", () => gather(model, task, some, { groupsize: 2 } as never), /"groupSize"\?$/],
  ["a group of none", () => gather(model, task, some, { groupSize: 0 }), /groupSize must be .* at least 1, and is 0$/],
  ["a misspelt option of an evaluation", () => evaluate(model, task, some, { sed: 1 } as never), /mean "seed"\?$/],
  [
    "a misspelt option of a step",
    () => train(run, [], { reward: [] } as never),
    /^train\(\) has "reward", .*"rewards"\?$/,
  ],
  ["rollouts that are no groups", () => train(run, [{}] as never), /its second argument must be a list of groups/],
  ["a training without options", () => trainRun(undefined as never), /^options must be an object$/],
  [
    "a misspelt reward of a training",
    () => trainRun({ task: file }, { rewards: () => [] } as never),
    /^trainRun\(\).*"rewards", .*mean "reward"\?$/,
  ],
  [
    "a reward by its name beside the options",
    () => trainRun({ task: file }, { reward: "ruler" } as never),
    /^reward must be a function; /,
  ],
  ["a misspelt event of a plan", () => planRun({ task: file }, { onstep() {} } as never), /mean "onStep"\?$/],
  ["a misspelt event of a run", () => openRun(model, task, { onStpe() {} } as never), /onStpe is not an option/],
  [
    "a reward beside a plan, which has one",
    () => openRun({ settings: {} } as never, { reward: () => [] } as never),
    /^openRun\(\).*has "reward"/,
  ],
  ["a run of a task's file", () => openRun(model, file as never), /its second argument must be a task/],
  ["an imitation without options", () => sft(undefined as never), /^options must be an object$/],
  ["a misspelt event of imitation", () => sft({}, { onprogress() {} } as never), /mean "onProgress"\?$/],
  ["a ruler of a task's file", () => ruler(file as never, {}), /^ruler\(\) takes a task of openTask\(\)/],
  ["a run of nothing", () => openRun(undefined as never), /^openRun\(\) takes a model of openModel\(\) and a task/],
  [
    "a run without its task",
    () => openRun(model, undefined as never),
    /^openRun\(\): its second argument must be a task/,
  ],
])("%s", async (_, call, words) => {
  const error = await Promise.resolve()
    .then(call)
    .catch((error: Error) => error);
  expect(error).toMatchObject({ name: "UsageError", message: expect.stringMatching(words) });
});
