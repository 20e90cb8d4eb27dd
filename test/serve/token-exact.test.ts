/** Conversations over HTTP keep the tokens that were sampled, and evaluate none of them twice. */
import type OpenAI from "openai";
import { beforeAll, expect, test } from "vitest";
import { EngineSession } from "../../src/core/rollout/engine-session.js";
import { opening, playRollout } from "../../src/core/rollout/rollout.js";
import { Transcript } from "../../src/core/rollout/transcript.js";
import { checkArguments } from "../../src/core/task/parameters.js";
import { type AnyTask, type Scenario, toolSchema } from "../../src/core/task/task.js";
import { mailTask } from "./mail-task.js";
import { ask, idsOfChoice, type Server, serveTiny } from "./support.js";

type Message = OpenAI.ChatCompletionMessageParam;

const task = mailTask as unknown as AnyTask;
const scenarios = (await task.scenarios({})) as Scenario[];
const tools = task.tools.map((tool) => toolSchema(tool));
const MAX_TURNS = 6;
const MAX_TOKENS = 100;

let server: Server;
beforeAll(async () => {
  server = await serveTiny({ context: 2048 });
});

/** An agent as anybody writes one: it knows messages, and nothing of tokens. */
async function agent(scenario: Scenario, seed: number) {
  const messages = task.prompt(scenario, { maxTurns: MAX_TURNS }) as Message[];
  const turns: { prompt: number[]; sampled: number[]; evaluated: number; cached: number; tokenised: string }[] = [];
  const { engine } = server;
  const tokenize = engine.tokenize.bind(engine);
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const before = server.engine.stats().prefilled;
    const body = { messages, tools, seed, max_tokens: MAX_TOKENS, return_token_ids: true };
    let tokenised = "";
    engine.tokenize = (text, options) => {
      tokenised += text;
      return tokenize(text, options);
    };
    const completion = await ask(server.client, body);
    engine.tokenize = tokenize;
    const [choice] = completion.choices;
    if (!choice) throw new Error("there is no choice");
    const evaluated = server.engine.stats().prefilled - before;
    const cached = completion.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    const prompt = completion.prompt_token_ids as number[];
    turns.push({ prompt, sampled: idsOfChoice(choice), evaluated, cached, tokenised });
    expect(completion.hone.continued).toBe(turn > 0);
    const calls = choice.message.tool_calls ?? [];
    // What AI SDKs do: arguments are parsed, and written again with other spaces.
    for (const call of calls) {
      if (call.type !== "function") continue;
      call.function.arguments = JSON.stringify(JSON.parse(call.function.arguments), null, 1);
    }
    messages.push(choice.message);
    if (calls.length === 0) break;
    for (const call of calls) {
      if (call.type !== "function") continue;
      const tool = task.tools.find(({ name }) => name === call.function.name);
      const checked = tool && checkArguments(tool.parameters, JSON.parse(call.function.arguments));
      if (!tool || tool.final || !checked || "problem" in checked) return turns;
      const result = await tool.execute(checked.args, {
        scenario,
        env: undefined,
        signal: new AbortController().signal,
      });
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
  return turns;
}

async function builtIn(scenario: Scenario, seed: number) {
  const { engine, model } = server;
  const first = opening(task, scenario, MAX_TURNS);
  const prompt = model.chat.template.prompt(first.messages, first.tools);
  const sequence = engine.open(Int32Array.from(prompt));
  const session = new EngineSession(engine, model.chat, sequence, first, prompt, { seed });
  const seconds = { turnSeconds: 60, toolSeconds: 60, rolloutSeconds: 60 };
  const limits = { maxTurns: MAX_TURNS, maxTokens: MAX_TOKENS, onToolError: "stop", ...seconds } as const;
  const signal = new AbortController().signal;
  const outcome = await playRollout({ task, scenario, env: undefined, session, limits, signal });
  session.close();
  return outcome;
}

test("an agent over HTTP draws the token ids of the built-in loop, and each token is evaluated once", async () => {
  const lengths: number[] = [];
  for (const scenario of scenarios) {
    // With it the tiny model reads what it found.
    for (const seed of [13]) {
      const turns = await agent(scenario, seed);
      const { tokens } = await builtIn(scenario, seed);
      const last = turns.at(-1) as (typeof turns)[number];
      expect([...last.prompt, ...last.sampled]).toEqual(tokens?.ids);
      lengths.push(turns.length);
      turns.forEach(({ prompt, evaluated, cached, tokenised }, index) => {
        const before = turns[index - 1];
        expect(tokenised.includes(scenario.question)).toBe(index === 0);
        if (before) expect(cached).toBe(before.prompt.length + before.sampled.length - 1);
        // Of a turn that goes on: what came between, and the token that was sampled last.
        if (before) expect(evaluated).toBe(prompt.length - before.prompt.length - before.sampled.length + 1);
      });
    }
  }
  expect(Math.max(...lengths)).toBeGreaterThan(2);
});

test("a conversation says which tokens were sampled, and how likely they were", async () => {
  const scenario = scenarios[0] as Scenario;
  const transcript = new Transcript();
  const { model } = server;
  const answer = model.answer.bind(model);
  model.answer = async (conversation, wanted) => {
    const turn = await answer(conversation, wanted);
    transcript.given(conversation.append);
    transcript.add(turn.segment);
    return turn;
  };
  await agent(scenario, 22);
  model.answer = answer;
  const { tokens } = await builtIn(scenario, 22);
  const record = transcript.record();
  expect(record.ids).toEqual(tokens?.ids);
  expect(record.sampled).toEqual(tokens?.sampled);
  record.logprobs.forEach((logprob, index) => {
    expect(Math.abs(logprob - (tokens?.logprobs[index] as number))).toBeLessThan(1e-3);
  });
});

const question: Message[] = [
  { role: "system", content: "You answer." },
  { role: "user", content: "Find the mail about Falcon" },
];

async function asked(messages: Message[], more: object = {}) {
  const completion = await ask(server.client, { messages, seed: 3, max_tokens: 30, return_token_ids: true, ...more });
  const prompt = completion.prompt_token_ids as number[];
  return {
    completion,
    message: completion.choices[0]?.message as Message,
    prompt,
    ids: idsOfChoice(completion.choices[0]),
  };
}

test("a turn that the client rewrote is told apart, counted, and given as text", async () => {
  const counted = server.model.counts.rewritten;
  const first = await asked(question, { seed: 31 });
  const next: Message = { role: "user", content: "And then?" };
  const rewritten = await asked([...question, { role: "assistant", content: "I found it." }, next], { seed: 32 });
  expect(rewritten.completion.hone).toMatchObject({ continued: false, history_rewritten: 1 });
  expect(rewritten.prompt).toEqual(
    server.model.chat.template.prompt(
      [...question, { role: "assistant", content: "I found it." }, next] as Parameters<
        typeof server.model.chat.template.prompt
      >[0],
      [],
    ),
  );
  expect(server.model.counts.rewritten).toBe(counted + 1);
  // The conversation goes on as it is now known, and does not forget it.
  const messages = [...question, { role: "assistant" as const, content: "I found it." }, next, rewritten.message, next];
  const third = await asked(messages, { seed: 33 });
  expect(third.completion.hone).toMatchObject({ continued: true, history_rewritten: 1 });
  expect(third.prompt.slice(0, rewritten.prompt.length + rewritten.ids.length)).toEqual([
    ...rewritten.prompt,
    ...rewritten.ids,
  ]);
  expect(server.model.counts.rewritten).toBe(counted + 1);
  // As it was sampled it is still there.
  const kept = await asked([...question, first.message, next], { seed: 34 });
  expect(kept.completion.hone).toMatchObject({ continued: true, history_rewritten: 0 });
  expect(kept.prompt.slice(0, first.prompt.length + first.ids.length)).toEqual([...first.prompt, ...first.ids]);
});

test("a conversation that goes on in two ways keeps the sampled tokens in both", async () => {
  const first = await asked(question, { seed: 41 });
  const [left, right] = await Promise.all(
    ["Left?", "Right?"].map((content) => asked([...question, first.message, { role: "user", content }], { seed: 42 })),
  );
  for (const { prompt, completion } of [left, right] as NonNullable<typeof left>[]) {
    expect(prompt.slice(0, first.prompt.length + first.ids.length)).toEqual([...first.prompt, ...first.ids]);
    expect(completion.hone.continued).toBe(true);
  }
  expect(left?.prompt).not.toEqual(right?.prompt);
});

test("a turn cut at its limit goes on from what was sampled of it", async () => {
  const first = await asked(question, { seed: 43, max_tokens: 2 });
  expect(first.completion.choices[0]?.finish_reason).toBe("length");
  const { prompt } = await asked([...question, first.message, { role: "user", content: "Go on." }], { seed: 44 });
  const { closing } = server.model.chat.template;
  expect(prompt.slice(0, first.prompt.length + 3)).toEqual([...first.prompt, ...first.ids, closing.id]);
});

test("conversations without a slot are found again: their tokens stay, only KV is evaluated anew", async () => {
  const small = await serveTiny({ sequences: 2 });
  const ours = await ask(small.client, { messages: question, seed: 51, max_tokens: 20, return_token_ids: true });
  for (let index = 0; index < 4; index++) {
    await ask(small.client, { messages: [{ role: "user", content: `Other ${index}` }], max_tokens: 3 });
  }
  expect(small.model.seats.counts.idle).toBe(2);
  const [choice] = ours.choices;
  const messages = [...question, choice?.message as Message, { role: "user" as const, content: "And?" }];
  const next = await ask(small.client, { messages, seed: 52, max_tokens: 5, return_token_ids: true });
  const known = [...(ours.prompt_token_ids as number[]), ...idsOfChoice(choice)];
  expect(next.prompt_token_ids?.slice(0, known.length)).toEqual(known);
  expect(next.hone.continued).toBe(true);
  await small.close();
});
