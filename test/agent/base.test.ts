/** The frozen base beside the trained model: its own key, its own limits, and no part in what is trained. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { FrozenModel } from "../../src/agent/frozen-model.js";
import { type BaseLimits, withBase } from "../../src/agent/with-base.js";
import { chatOf } from "../../src/chat/chat.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import type { Sequence } from "../../src/core/engine/sequence.js";
import { writeBatch } from "../../src/core/learn/batch.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { Uncounted } from "../../src/core/util/time-limit.js";
import { loadEngine } from "../../src/engine/factory.js";
import { prepareTurns } from "../../src/serve/turns.js";
import { writeAdapter } from "../engine/vllm/support.js";
import { opened, playTask, support } from "./support/playing.js";

let engine: LocalEngine;
beforeAll(async () => {
  engine = await opened();
  await engine.useAdapter(await writeAdapter("trained", { rank: 128 }));
});

const scenario = (question: string) => ({ id: "s", split: "train" as const, question });

async function played(question: string, groupSize = 1): Promise<Trajectory[]> {
  const { groups, failures } = await playTask(support("base.ts"), [scenario(question)], { groupSize });
  expect(failures).toEqual([]);
  return groups.flat();
}

/** What the agent said of itself. */
const said = ({ output = "" }: Trajectory) => JSON.parse(/^\[info\] (.*)$/m.exec(output)?.[1] ?? "");

const greedy = async (by: LocalEngine, prompt: number[], maxTokens: number) => {
  const sequence = by.open(Int32Array.from(prompt));
  const { tokens } = await sequence.generate({ maxTokens, sampling: { seed: 0, temperature: 0 }, stop: [] });
  sequence.close();
  return [...tokens];
};

/** Which fails where an engine of this name is there with other settings. */
const loadAlone = (name: string) =>
  loadEngine({ model: engine.info.model, gpu: false, name, threads: 1, sequences: 1, contextPerSequence: 768 });

test("answers as the model without the adapter that is on, and has no part in the rollout's sequences or its batch", async () => {
  const rollouts = await played("asks both", 2);
  const [{ prompt, tokens }, other] = rollouts.map(said);
  expect(other.tokens).toEqual(tokens);
  const alone = await loadAlone("alone");
  expect(tokens).toEqual(await greedy(alone, prompt, tokens.length));
  await alone.close();
  // The adapter says something else, so that the test would see it.
  expect(await greedy(engine, prompt, tokens.length)).not.toEqual(tokens);
  for (const { agent, turns, messages, branches, tokens: record, completionTokens } of rollouts) {
    expect(agent).toEqual({
      completions: 1,
      sequences: 1,
      base_calls: 1,
      base_prompt_tokens: prompt.length,
      base_completion_tokens: tokens.length,
    });
    expect([turns, messages.length, branches]).toEqual([1, 3, undefined]);
    expect(record?.sampled.reduce((sum, one) => sum + one, 0)).toBe(completionTokens);
  }
  const file = join(mkdtempSync(join(tmpdir(), "hone-base-")), "batch.safetensors");
  const group = rollouts.map(({ tokens, index }) => ({
    tokens: tokens as NonNullable<typeof tokens>,
    advantage: index,
  }));
  const { sequences, sampledTokens } = await writeBatch(file, [group], { temperature: 1 });
  expect({ sequences, sampledTokens }).toEqual({
    sequences: 2,
    sampledTokens: rollouts.reduce((sum, { completionTokens }) => sum + completionTokens, 0),
  });
});

/** A rollout, and what the engine has done meanwhile. */
async function during(question: string) {
  const counts = () => {
    const { decoded, prefilled, reused, passes, evicted } = engine.stats();
    return [decoded, prefilled, reused, passes, evicted];
  };
  const before = counts();
  const [rollout] = await played(question);
  return { ...(rollout as Trajectory), work: counts().map((count, i) => count - (before[i] as number)) };
}

test("what it is asked meanwhile changes no token of the trained model, and no pass of its engine", async () => {
  // Of whose cells the others begin.
  await played("asks the model alone");
  const one = await during("asks the model alone");
  const other = await during("asks the base meanwhile");
  expect(other.agent).toMatchObject({ completions: 3, base_calls: 6 });
  expect(other.work).toEqual(one.work);
  expect(other.tokens).toEqual(one.tokens);
  expect(other.messages).toEqual(one.messages);
});

test("gives its memory back with the last rollout, and never has weights of its own", async () => {
  const before = engine.memory();
  await played("asks both", 3);
  expect(engine.memory()).toMatchObject({ weights: before.weights, kv: before.kv });
  // With other sizes it could not be loaded while it was there.
  await (await loadAlone("base")).close();
});

test("has limits of its own, and says in a line which of them a request has met", async () => {
  const [rollout] = await played("asks for more than there is");
  const answered = said(rollout as Trajectory);
  expect(answered).toEqual({
    usage: [20, 5],
    finish: "length",
    errors: [
      [400, "context_length_exceeded", expect.stringContaining("512 tokens")],
      [400, "base_call_limit", "The rollout has had its 12 turns of the base (withBase's calls)."],
    ],
  });
  const { end, agent } = rollout as Trajectory;
  expect(end).toBe("answered");
  expect(agent).toMatchObject({ completions: 1, base_calls: 12, base_completion_tokens: 35, base_refused: 2 });
  expect(agent).not.toHaveProperty("refused");
});

test("a turn that takes longer than its seconds is an error", async () => {
  const limits = { calls: 2, maxTokens: 5, seconds: 7 };
  const asked: unknown[] = [];
  const late: Sequence = {
    length: 9,
    generate: async ({ seconds, maxTokens }) => {
      asked.push({ seconds, maxTokens });
      const nothing = { tokens: new Int32Array(), logprobs: new Float32Array(), waitedSeconds: 0, usedSeconds: 7 };
      return { ...nothing, stop: "deadline" };
    },
    close: () => undefined,
  };
  const slow = {
    info: engine.info,
    tokenize: engine.tokenize.bind(engine),
    detokenize: engine.detokenize.bind(engine),
    open: () => late,
  } as unknown as LocalEngine;
  const nothing = () => undefined;
  const frozen = { engine: slow, pace: nothing, close: async () => nothing() };
  const chat = chatOf(engine, {});
  const model = new FrozenModel({
    written: new Uncounted(),
    frozen,
    chat,
    limits,
    seed: 1,
    onTrouble: nothing,
    onNote: nothing,
  });
  const turns = prepareTurns(model, { model: "base", messages: [{ role: "user", content: "When?" }] });
  await expect((await turns).sample(0, new AbortController().signal)).rejects.toMatchObject({
    ...{ status: 400, code: "base_timeout" },
    message: "The base did not end its turn within 7 s (withBase's seconds).",
  });
  expect(asked).toEqual([{ seconds: 7, maxTokens: 5 }]);
});

test.each([
  [{ calls: 0 }, "withBase: calls is 0; it must be a whole number, at least 1"],
  [{ seconds: 0.5 }, "withBase: seconds is 0.5; it must be a whole number, at least 1"],
  [{ tokens: 3 }, "withBase: there is no limit tokens; there are calls, maxTokens, seconds, context, atOnce"],
])("refuses the limit %j", (limits, message) => {
  expect(() => withBase(limits as BaseLimits, () => 0)).toThrow(new TypeError(message));
});

test("has the form that a request asks for: nobody learns from it", async () => {
  const [rollout] = await played("asks for a form");
  expect([0, 1]).toContain(said(rollout as Trajectory).score);
  expect(rollout?.agent).not.toHaveProperty("off_form");
});

test("is there for the AI SDK and for programs", async () => {
  const [rollout] = await played("asks by the AI SDK, and by a program");
  expect(said(rollout as Trajectory)).toEqual({ sampled: 7, warnings: [], stdout: "base 3\n" });
  expect(rollout?.agent).toMatchObject({ completions: 1, base_calls: 2, base_completion_tokens: 10 });
});

test("an error after a request to it that failed is the program's fault, whatever the model did", async () => {
  const { failures } = await playTask(support("base.ts"), [scenario("fails at the base")], { maxExceptions: 1 });
  expect(failures.map(({ error }) => error.split("\n")[0])).toEqual([
    expect.stringMatching(/^the grader failed: .*messages/),
  ]);
});

test("where a rollout's base cannot be had, a line says why", async () => {
  const { failures } = await playTask(support("base-too-long.ts"), [scenario("any")], { maxExceptions: 1 });
  expect(failures.map(({ error }) => error)).toEqual([
    expect.stringMatching(
      /^the base beside the trained model \(withBase\): a context of 1000000 tokens: the model was trained with \d+$/,
    ),
  ]);
});
