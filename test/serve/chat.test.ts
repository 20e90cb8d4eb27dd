/** The options of OpenAI's API, through its own client: each is obeyed, or refused with its name. */
import type OpenAI from "openai";
import { APIError } from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { ask, idsOfChoice, type Server, serveTiny, tool } from "./support.js";

type Message = OpenAI.ChatCompletionMessageParam;

let server: Server;
let client: OpenAI;
beforeAll(async () => {
  server = await serveTiny();
  client = server.client;
});

const messages: Message[] = [
  {
    role: "system",
    content:
      "You are an email search agent. Use the tools to search and read emails. You may take up to 6 turns. User's email address is a@x.example. Today's date is 2031-01-05.",
  },
  { role: "user", content: "When is the deadline of the project Falcon?" },
];
const search = tool("search_inbox", { type: "object", properties: { keywords: { type: "array" } } });
/** With this seed the tiny model searches. */
const searching = { messages, tools: [search], seed: 11, max_tokens: 60 };

/** The error of a request that has to be refused. */
async function refusal(request: Promise<unknown>): Promise<APIError> {
  const error = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof APIError) return error;
  throw new Error(`it was not refused: ${error}`);
}

async function streamed(body: object) {
  const parts: OpenAI.ChatCompletionChunk[] = [];
  const stream = await client.chat.completions.create({
    ...(body as OpenAI.ChatCompletionCreateParamsStreaming),
    model: "tiny",
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const part of stream) parts.push(part);
  return parts;
}

describe("a chat completion", () => {
  test("has the calls of the model, and the stream of it comes to the same", async () => {
    const whole = await ask(client, searching);
    const [choice] = whole.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    expect(choice?.message.content).toBeNull();
    const calls = choice?.message.tool_calls ?? [];
    expect(calls[0]).toMatchObject({ id: "000000001", type: "function", function: { name: "search_inbox" } });
    const parts = await streamed(searching);
    const deltas = parts.flatMap(({ choices }) => choices.map(({ delta }) => delta));
    expect(deltas[0]?.role).toBe("assistant");
    const shown = deltas.flatMap(({ tool_calls: more = [] }) => more).map(({ index: _, ...call }) => call);
    expect(shown).toEqual(calls);
    expect(parts.at(-2)?.choices[0]?.finish_reason).toBe("tool_calls");
    expect(parts.at(-1)?.usage).toMatchObject({ completion_tokens: whole.usage?.completion_tokens });
  });

  test("is streamed as it is sampled, and its parts are the whole text", async () => {
    const plain = { messages, seed: 5, temperature: 3, max_tokens: 60, stop: ["\n\n\n"] };
    const whole = await ask(client, plain);
    const parts = await streamed(plain);
    const texts = parts.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? ""));
    expect(texts.join("")).toBe(whole.choices[0]?.message.content);
    expect(texts.filter((text) => text !== "").length).toBeGreaterThan(10);
  });

  test("repeats itself with its seed, and draws anew without one", async () => {
    const body = { messages, temperature: 2, max_tokens: 20, return_token_ids: true };
    const ids = async (more: object) => idsOfChoice((await ask(client, { ...body, ...more })).choices[0]);
    const first = await ids({ seed: 7 });
    expect(await ids({ seed: 7 })).toEqual(first);
    expect(await ids({ seed: 8 })).not.toEqual(first);
    const own = await ask(client, body);
    expect(await ids({ seed: own.hone.seed })).toEqual(idsOfChoice(own.choices[0]));
  });

  test("takes the likeliest tokens at temperature 0, and those that top_k leaves", async () => {
    const ids = async (more: object) =>
      idsOfChoice((await ask(client, { messages, max_tokens: 12, return_token_ids: true, ...more })).choices[0]);
    const greedy = await ids({ temperature: 0 });
    expect(await ids({ temperature: 5, top_k: 1, seed: 1 })).toEqual(greedy);
    expect(await ids({ temperature: 5, top_p: 1e-9, seed: 2 })).toEqual(greedy);
    expect(await ids({ temperature: 5, min_p: 1, seed: 3 })).toEqual(greedy);
    expect(await ids({ temperature: 5, seed: 3 })).not.toEqual(greedy);
  });

  test("has n choices, the first as alone, each of which can go on", async () => {
    const body = { messages, temperature: 2, max_tokens: 8, seed: 9, return_token_ids: true };
    const [alone, three] = [await ask(client, body), await ask(client, { ...body, n: 3 })];
    const ids = three.choices.map(idsOfChoice);
    expect(ids[0]).toEqual(idsOfChoice(alone.choices[0]));
    expect(new Set(ids.map(String)).size).toBe(3);
    expect(three.usage?.completion_tokens).toBe(ids.flat().length);
    const third = [...messages, three.choices[2]?.message as Message, { role: "user" as const, content: "And?" }];
    const next = await ask(client, { messages: third, max_tokens: 1, return_token_ids: true });
    expect(next.prompt_token_ids?.join()).toContain([...(three.prompt_token_ids ?? []), ...(ids[2] ?? [])].join());
  });

  test("ends before a stop text, however tokens cut it, and goes on with what was sampled up to there", async () => {
    const body = { messages, temperature: 3, seed: 5, max_tokens: 60, return_token_ids: true };
    const free = (await ask(client, body)).choices[0]?.message.content as string;
    const text = free.slice(20, 25);
    const stopped = await ask(client, { ...body, stop: [text, "never said"] });
    const [choice] = stopped.choices;
    expect(choice?.finish_reason).toBe("stop");
    expect(choice?.message.content).toBe(free.slice(0, free.indexOf(text)).trim());
    const next = [...messages, choice?.message as Message, { role: "user" as const, content: "And?" }];
    const more = await ask(client, { messages: next, max_tokens: 1, return_token_ids: true });
    expect(more.hone.continued).toBe(true);
    const known = [...(stopped.prompt_token_ids as number[]), ...idsOfChoice(choice)];
    expect(more.prompt_token_ids?.slice(0, known.length)).toEqual(known);
  });

  test("says how likely its tokens and others were", async () => {
    const { choices } = await ask(client, { messages, seed: 4, max_tokens: 6, logprobs: true, top_logprobs: 3 });
    const [choice] = choices;
    const told = choice?.logprobs?.content ?? [];
    expect(told.length).toBeGreaterThan(3);
    expect(
      told
        .map(({ token }) => token)
        .join("")
        .trim(),
    ).toBe(choice?.message.content);
    for (const { logprob, top_logprobs: top, bytes, token } of told) {
      expect(top).toHaveLength(3);
      expect(top[0]?.logprob).toBeGreaterThanOrEqual(logprob);
      expect(Buffer.from(bytes ?? []).toString()).toBe(token);
    }
  });

  test("without tools in the request or under tool_choice none shows calls as text", async () => {
    const body = { ...searching, tool_choice: "none" as const };
    const { choices, usage } = await ask(client, body);
    expect(choices[0]?.message.tool_calls).toBeUndefined();
    expect(usage?.prompt_tokens).toBe((await ask(client, { messages, seed: 11, max_tokens: 1 })).usage?.prompt_tokens);
  });

  test("takes parts of text, developers and what clients send back of a message", async () => {
    const plain = await ask(client, { messages, seed: 1, max_tokens: 4, return_token_ids: true });
    const [system, user] = messages as unknown as [{ content: string }, { content: string }];
    const other = [
      { role: "developer", content: system.content },
      {
        role: "user",
        content: [
          { type: "text", text: user.content.slice(0, 9) },
          { type: "text", text: user.content.slice(9) },
        ],
      },
    ] as Message[];
    const same = await ask(client, { messages: other, seed: 1, max_tokens: 4, return_token_ids: true });
    expect(same.prompt_token_ids).toEqual(plain.prompt_token_ids);
    // As Python's client dumps a message.
    const dumped = {
      ...plain.choices[0]?.message,
      annotations: null,
      audio: null,
      function_call: null,
      tool_calls: null,
    };
    const next = [...messages, dumped as unknown as Message, { role: "user" as const, content: "And?" }];
    expect((await ask(client, { messages: next, max_tokens: 1 })).hone.continued).toBe(true);
  });
});

describe("a completion", () => {
  const sampled = (text: { text: string }) => text.text;

  test("takes a text or its ids, and gives ids", async () => {
    const ids = [...server.engine.tokenize("The mail says", { special: true })];
    const body = { model: "tiny", max_tokens: 8, seed: 2, return_token_ids: true };
    const [text, tokens] = await Promise.all([
      client.completions.create({ ...body, prompt: "The mail says" }),
      client.completions.create({ ...body, prompt: ids }),
    ]);
    expect(tokens.choices.map(sampled)).toEqual(text.choices.map(sampled));
    expect((tokens.choices[0] as unknown as { prompt_token_ids: number[] }).prompt_token_ids).toEqual(ids);
    const out = idsOfChoice(tokens.choices[0]);
    expect(out).toHaveLength(tokens.usage?.completion_tokens as number);
    expect(tokens.choices[0]?.finish_reason).toBe("length");
    // Ids go on with ids: no text is between.
    const before = server.engine.stats().prefilled;
    await client.completions.create({ ...body, prompt: [...ids, ...out], max_tokens: 1 });
    expect(server.engine.stats().prefilled - before).toBe(1);
  });

  test("answers several prompts n times, and streams", async () => {
    const body = { model: "tiny", max_tokens: 5, seed: 2, n: 2, temperature: 2, prompt: ["One", "Two"], logprobs: 2 };
    const whole = await client.completions.create(body);
    expect(whole.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    const { logprobs } = whole.choices[0] as OpenAI.CompletionChoice;
    expect(logprobs?.tokens?.join("")).toBe(whole.choices[0]?.text);
    expect(logprobs?.text_offset?.[1]).toBe(logprobs?.tokens?.[0]?.length);
    const texts = ["", "", "", ""];
    for await (const part of await client.completions.create({ ...body, stream: true })) {
      for (const { index, text } of part.choices) texts[index] += text;
    }
    expect(texts).toEqual(whole.choices.map(sampled));
  });

  test("repeats the prompt with log-probabilities, as lm-eval asks for them", async () => {
    const ids = [...server.engine.tokenize("One two three. One two", { special: true })];
    const body = { model: "tiny", prompt: [ids, ids.slice(0, 4)], max_tokens: 1, temperature: 0, echo: true, seed: 1 };
    const { choices, usage } = await client.completions.create({ ...body, logprobs: 1 });
    const [{ logprobs, text }, short] = choices as [OpenAI.CompletionChoice, OpenAI.CompletionChoice];
    expect(text.startsWith("One two three. One two")).toBe(true);
    expect(logprobs?.tokens?.join("")).toBe(text);
    expect([logprobs?.tokens?.length, logprobs?.token_logprobs?.length]).toEqual([ids.length + 1, ids.length + 1]);
    expect([logprobs?.token_logprobs?.[0], logprobs?.top_logprobs?.[0]]).toEqual([null, null]);
    expect(logprobs?.text_offset?.[1]).toBe(logprobs?.tokens?.[0]?.length);
    // The engine's scores, and what greedy completions of the beginnings say: how many are evaluated at once is rounding.
    const scores = await server.engine.score(Int32Array.from(ids));
    expect(scores.length).toBe(ids.length - 1);
    for (const [i, score] of scores.entries()) expect(logprobs?.token_logprobs?.[i + 1]).toBeCloseTo(score, 2);
    for (let at = 1; at < ids.length; at++) {
      const greedy = { ...body, prompt: ids.slice(0, at), echo: false, logprobs: 1 };
      const first = (await client.completions.create(greedy)).choices[0]?.logprobs;
      const [likeliest] = Object.entries(logprobs?.top_logprobs?.[at] ?? {});
      expect(likeliest?.[0]).toBe(first?.tokens?.[0]);
      expect(likeliest?.[1]).toBeCloseTo(first?.token_logprobs?.[0] as number, 2);
    }
    expect(short.logprobs?.tokens?.length).toBe(5);
    expect(usage).toMatchObject({ prompt_tokens: ids.length + 4, completion_tokens: 2 });
  });

  test("scores a text alone, and repeats it without log-probabilities", async () => {
    const body = { model: "tiny", prompt: "One two", max_tokens: 0, echo: true };
    const { choices, usage } = await client.completions.create({ ...body, logprobs: 0 });
    expect(choices[0]).toMatchObject({ text: "One two", finish_reason: "length" });
    expect(choices[0]?.logprobs?.tokens?.join("")).toBe("One two");
    expect(usage?.completion_tokens).toBe(0);
    const plain = await client.completions.create({ ...body, max_tokens: 3, seed: 1, n: 2 });
    for (const { text, logprobs } of plain.choices) {
      expect([text.startsWith("One two"), text.length > 7, logprobs]).toEqual([true, true, null]);
    }
    const streamed = await refusal(client.completions.create({ ...body, max_tokens: 3, stream: true }));
    expect(streamed.param).toBe("echo");
  });

  test("refuses ids that the vocabulary lacks, and what it does not obey", async () => {
    const body = { model: "tiny", prompt: [999_999], max_tokens: 1 };
    expect((await refusal(client.completions.create(body))).message).toContain("there is no token 999999");
    for (const more of [{ max_tokens: 0 }, { best_of: 2 }, { suffix: "x" }, { prompt: "" }, { logprobs: 21 }]) {
      const error = await refusal(client.completions.create({ ...body, prompt: "One", ...more }));
      expect([error.status, error.param]).toEqual([400, Object.keys(more)[0]]);
    }
  });
});

describe("what is not obeyed is refused by its name", () => {
  const refused: [param: string, body: object][] = [
    ["presence_penalty", { presence_penalty: 0.5 }],
    ["frequency_penalty", { frequency_penalty: 1 }],
    ["logit_bias.50", { logit_bias: { 50: 1 } }],
    ["response_format.type", { response_format: { type: "grammar", grammar: "root ::= [a-z]" } }],
    ["tool_choice", { tools: [search], tool_choice: { type: "allowed_tools" } }],
    ["store", { store: true }],
    ["temperature", { temperature: -1 }],
    ["n", { n: 0 }],
    ["seed", { seed: 1.5 }],
    ["stop", { stop: "" }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["stream_options", { stream_options: { include_usage: true } }],
    ["seed", { seed: -2 }],
    ["top_k", { top_k: 2 ** 31 }],
    ["max_tokens", { max_tokens: 0 }],
    ["max_tokens", { max_tokens: 1e15 }],
    ["max_completion_tokens", { max_completion_tokens: 2 ** 31 }],
    ["modalities.0", { modalities: ["audio"] }],
    ["prediction", { prediction: { type: "content", content: "x" } }],
    ["logprob", { logprob: true }],
    ["messages", { messages: [] }],
    ["messages.0.content", { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }],
    ["messages.1.tool_call_id", { messages: [messages[1], { role: "tool", tool_call_id: "x", content: "" }] }],
  ];
  for (const [index, [param, body]] of refused.entries()) {
    test(`${param} (${index})`, async () => {
      const error = await refusal(ask(client, { messages, max_tokens: 1, ...body }));
      expect(error.status).toBe(400);
      expect(error.param).toBe(param);
      expect(error.type).toBe("invalid_request_error");
    });
  }

  test("but null is what is not given", async () => {
    const names = [
      "presence_penalty",
      "logit_bias",
      "response_format",
      "tools",
      "stop",
      "seed",
      "n",
      "logprobs",
      "stream",
    ];
    const nothing = Object.fromEntries(names.map((name) => [name, null]));
    expect((await ask(client, { messages, max_tokens: 1, ...nothing })).choices).toHaveLength(1);
  });

  test("but what asks for nothing is not, nor names of participants", async () => {
    const more = { metadata: { run: "1" }, reasoning_effort: "low", verbosity: "low", modalities: ["text"], user: "u" };
    const named = messages.map((message) => ({ ...message, name: "Ada" })) as Message[];
    const body = { ...more, prediction: null, audio: null, function_call: null, functions: null, seed: -1 };
    const { choices } = await ask(client, { ...body, messages: named, max_tokens: 1 } as never);
    expect(choices).toHaveLength(1);
    const history = [
      ...named,
      { role: "assistant", name: "agent", content: "I look." },
      { role: "user", content: "And?" },
    ] as Message[];
    expect((await ask(client, { messages: history, max_tokens: 1 })).choices).toHaveLength(1);
    const seeds = await Promise.all([1, 2].map(() => ask(client, { messages, seed: -1, max_tokens: 1 })));
    expect(new Set(seeds.map(({ hone }) => hone.seed)).size).toBe(2);
  });

  test("-1 tokens are no limit", async () => {
    const body = { messages, temperature: 9, seed: 1 };
    const unlimited = await ask(client, { ...body, max_tokens: -1, max_completion_tokens: -1 });
    expect(unlimited.usage?.completion_tokens).toBeGreaterThan(1);
    const text = { model: "tiny", prompt: "The mail says", temperature: 9, seed: 1 };
    const completed = await client.completions.create({ ...text, max_tokens: -1 });
    expect(completed.usage?.completion_tokens).toBeGreaterThan(16);
  });

  test("schemas that are too deep or too large, and two tools of one name", async () => {
    let deep: Record<string, unknown> = {};
    for (let level = 0; level < 100; level++) deep = { properties: { x: deep } };
    const large = { description: "x".repeat(300_000) };
    const wrong = [[tool("a", deep)], [tool("a", large)], [tool("a"), tool("a")]];
    for (const tools of wrong) {
      expect((await refusal(ask(client, { messages, tools, max_tokens: 1 }))).status).toBe(400);
    }
    const shared = {
      $defs: { day: { type: "string" }, node: { properties: { next: { $ref: "#/$defs/node" } } } },
      properties: { a: { $ref: "#/$defs/day" }, b: { $ref: "#/$defs/day" }, c: { $ref: "#/$defs/node" } },
    };
    expect((await ask(client, { messages, tools: [tool("a", shared)], max_tokens: 1 })).choices).toHaveLength(1);
  });

  test("a conversation that is too long", async () => {
    const long = await refusal(ask(client, { messages: [{ role: "user", content: "mail ".repeat(3000) }] }));
    expect([long.status, long.code]).toEqual([400, "context_length_exceeded"]);
    const fits = await ask(client, {
      messages: [{ role: "user", content: "mail ".repeat(1000) }],
      temperature: 9,
      seed: 1,
    });
    expect(fits.choices[0]?.finish_reason).toMatch(/length|stop/);
    expect(fits.usage?.total_tokens).toBeLessThanOrEqual(1024);
  });
});
