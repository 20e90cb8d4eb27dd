/** Who begins with nothing solved is told what fits, as commands that can be typed. */
import { describe, expect, test } from "vitest";
import { optionsOf, readGiven } from "../../src/core/config/config.js";
import type { AnyTask } from "../../src/core/task/task.js";
import { type Unsolved, unsolvedText } from "../../src/insight/report/unsolved.js";
import { typed } from "../../src/insight/typed.js";

const expert = (() => undefined) as unknown as NonNullable<AnyTask["expert"]>;
const rollout = expert as unknown as NonNullable<AnyTask["rollout"]>;
const about: Unsolved = {
  given: { gpu: "off", steps: 3, learningRate: 1e-4, loraRank: 4 },
  model: "small.gguf",
  run: "small",
  reference: "email",
  task: { expert },
  unread: { text: undefined, format: undefined },
  offForm: 0,
};
const told = (more: Partial<Unsolved> = {}) => unsolvedText(2, { ...about, ...more });

describe("a training that has solved nothing", () => {
  test("is begun by imitation of the task's expert, with the options of the training where they apply", () => {
    expect(told().split("\n")).toEqual([
      "step 2: nothing was solved, and only differences of rewards teach. What fits such a beginning:",
      "- imitation of the task's expert:",
      "    yarn rollout --expert --split train --n 160 --group-size 1 --out expert.jsonl",
      "    yarn hone sft expert.jsonl --model small.gguf --gpu off --lora-rank 4 --out imitated",
      "    yarn train --model small.gguf --gpu off --run small-imitated --steps 3 --fork imitated --learning-rate 0.0001 --lora-rank 4",
    ]);
  });

  test("by a program's own reward is told what to change in it: no command has that reward", () => {
    expect(told({ given: { reward: "program", steps: 3 } })).toContain(
      '\n    trainRun({ ...options, fork: "imitated", run: "small-imitated" }, choice)',
    );
  });

  test("that goes on from something is not told to begin by imitation", () => {
    expect(
      told({ given: { fork: "imitated" } })
        .split("\n")
        .slice(1),
    ).toEqual(["- more imitation before this training: further rollouts, or more --epochs of yarn hone sft"]);
  });

  test("takes another model first where the tiny one does not know the tools", () => {
    expect(told({ model: "tiny", reference: "task.ts" })).toMatch(
      /:\n- another model: the tiny model knows the tools of the mail task alone.*:\n {4}yarn train --task task\.ts --model qwen2\.5-0\.5b .*--run small-qwen/,
    );
  });

  test("takes the format that reads its calls before all others", () => {
    const unread = {
      text: "no tool call in any of 16 turns; --tool-format json reads calls in 15 of them",
      format: "json",
    };
    const [, ...first] = told({ unread }).split("\n");
    expect(first.slice(0, 2)).toEqual([
      `- ${unread.text}:`,
      "    yarn train --model small.gguf --gpu off --tool-format json --run small-json --steps 3 --learning-rate 0.0001 --lora-rank 4",
    ]);
    const none = { text: "no tool call in any of 16 turns, in none of the formats that hone reads", format: undefined };
    expect(told({ unread: none })).toContain(`\n- ${none.text}\n- imitation`);
  });

  test("of an own task without an expert has a better model's rollouts and examples in its prompt", () => {
    const text = told({ reference: "my task.ts", task: {}, given: { set: { steps: 2, kind: "a" } } });
    expect(text).toContain(
      "    yarn rollout --task 'my task.ts' --set steps=2 kind=a --player-url URL --player-model NAME --split train --n 160",
    );
    expect(text).toContain("sft played.jsonl --successes --task 'my task.ts' --model small.gguf --out imitated\n");
    expect(text).toContain("\n- worked examples in the prompt of my task.ts: pairs of user and assistant messages");
  });

  test("of an own agent has its logs, and a grammar where turns miss the form that it asks for", () => {
    const agent = { reference: "agent.ts", task: { rollout } };
    expect(told(agent)).toContain(
      "    yarn hone scenarios import LOGS --out imported\n    yarn hone sft imported/trajectories.jsonl",
    );
    expect(told(agent)).not.toContain("--off-form");
    expect(told({ ...agent, offForm: 3 })).toMatch(
      /- 3 turns had not the form .*:\n.*--off-form prevent --run small-prevent/,
    );
    expect(told({ ...agent, offForm: 3, given: { offForm: "prevent" } })).not.toContain("had not the form");
  });
});

test("options are typed so that they are read again as they were given", async () => {
  const given = {
    model: "a b'c.gguf",
    set: { n: 3, name: "x", like: "3" },
    templateArg: { enable_thinking: false, tone: "1" },
    loraTargets: ["q_proj", "v_proj"],
    releaseWeights: true,
    gradientCheckpointing: false,
    learningRate: 1e-4,
  };
  expect(typed({ ...given, hfToken: "secret", torchIndex: "u" }, optionsOf("train"))).toBe(
    " --set n=3 name=x like=3 --model 'a b'\\''c.gguf' --template-arg enable_thinking=false 'tone=\"1\"' --learning-rate 0.0001 --lora-targets q_proj,v_proj --no-gradient-checkpointing --release-weights",
  );
  const read = await readGiven({
    folder: null,
    flags: { templateArg: ["enable_thinking=false", 'tone="1"'], loraTargets: "q_proj,v_proj" },
  });
  expect(read).toMatchObject({ templateArg: given.templateArg, loraTargets: given.loraTargets });
});
