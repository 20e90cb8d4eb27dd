/** What an agent's sequences are drawn by, and that the engine's own account of it is taken. */
import { expect, test } from "vitest";
import { RolloutModel } from "../../src/agent/rollout-model.js";
import { chatOf } from "../../src/chat/chat.js";
import { deriveSeed } from "../../src/core/util/random.js";
import { Uncounted } from "../../src/core/util/time-limit.js";
import { checkEvaluated } from "../../src/guards/evaluated.js";
import { opened, playTask, support } from "./support/playing.js";

const SEED = 7;
const wanted = { maxTokens: 12, sampling: { temperature: 1, seed: 0 }, stopTexts: [], likeliest: undefined };

async function modelOf(written = new Uncounted()) {
  const engine = await opened();
  const limits = { maxTurns: 8, maxTokens: 12, turnSeconds: 60, offForm: "keep" } as const;
  const said = { onNote: () => undefined, onWaiting: () => undefined };
  return new RolloutModel({
    engine,
    chat: chatOf(engine),
    sampling: { temperature: 1 },
    seed: SEED,
    limits,
    written,
    ...said,
  });
}

const question = { role: "user", content: "Who is Karen?" } as const;

test("a turn that was not answered gives its seed back: asked again, it draws the same tokens", async () => {
  const model = await modelOf();
  const ask = async (messages: Parameters<RolloutModel["converse"]>[0], signal = new AbortController().signal) =>
    model.answer(await model.converse(messages, []), { ...wanted, signal, onText: undefined });
  const gone = AbortSignal.abort(new Error("the client is gone"));
  const messages = [question];
  await expect(ask(messages, gone)).rejects.toThrow("the client is gone");
  const first = await ask(messages);
  expect(first.segment.evaluated?.seed).toBe(SEED);

  const next = [...messages, { role: "assistant" as const, content: first.read.said }, question];
  await expect(ask(next, gone)).rejects.toThrow("the client is gone");
  expect((await ask(next)).segment.evaluated?.seed).toBe(SEED);
  // In a second way, and anew: each by a seed of its own.
  expect((await ask(next)).segment.evaluated?.seed).toBe(deriveSeed(SEED, "sequence", 1));
  expect((await ask(messages)).segment.evaluated?.seed).toBe(deriveSeed(SEED, "sequence", 2));
  model.end();
});

test("the time of its turns is told where it is none of the rollout's", async () => {
  const uncounted = new Uncounted();
  const model = await modelOf(uncounted);
  const signal = new AbortController().signal;
  await model.answer(await model.converse([question], []), { ...wanted, signal, onText: undefined });
  expect(uncounted.lasts()).toBe(false);
  expect(uncounted.milliseconds()).toBeGreaterThan(0);
  expect(uncounted.milliseconds()).toBeLessThanOrEqual(1000 * model.seconds.player);
  model.end();
});

test("a rollout whose first conversation goes on in several ways is what the engine says that it drew", async () => {
  const scenarios = [{ id: "tree", split: "train" as const, question: "Who is Karen?" }];
  const { groups, failures } = await playTask(support("tree-ai-sdk.ts"), scenarios);
  expect(failures).toEqual([]);
  const [group = []] = groups;
  const { seed, tokens, branches = [] } = group[0] as NonNullable<(typeof group)[0]>;
  // The sequence that is shown first went on last.
  expect(tokens?.evaluated?.seed).not.toBe(seed);
  expect(new Set([tokens, ...branches.map((branch) => branch.tokens)].map((one) => one?.evaluated?.seed)).size).toBe(3);
  expect(checkEvaluated(group, 1)).toBeUndefined();
});
