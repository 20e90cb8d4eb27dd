import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ApiSession } from "../../src/agent/api-session.js";
import type { ApiSettings } from "../../src/core/rollout/player.js";
import { opening, playRollout } from "../../src/core/rollout/rollout.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { Dialect } from "../../src/serve/openai/dialect.js";
import { countingTask } from "../support/counting-task.js";

const task = countingTask as unknown as AnyTask;
const [scenario] = (await task.scenarios({})) as [Scenario];

interface Request {
  messages: { role: string; content: string; tool_call_id?: string; tool_calls?: { id: string }[] }[];
  [key: string]: unknown;
}

let server: Server | undefined;
afterEach(() => server?.close());

async function body(request: IncomingMessage): Promise<Request> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text) as Request;
}

type Answer = object | number | string;

/** A chat server on loopback that gives the answers in turn and keeps what it was sent. */
const serve = (...answers: Answer[]) => serveBy(() => answers.shift());

/** @param next a text is sent as it is, a number as the status of an error; undefined hangs */
async function serveBy(next: (request: Request) => Answer | undefined) {
  const requests: Request[] = [];
  server = createServer(async (request, response) => {
    const received = await body(request);
    requests.push(received);
    const answer = next(received);
    if (answer === undefined) return; // hangs
    response.statusCode = typeof answer === "number" ? answer : 200;
    response.setHeader("content-type", "application/json");
    if (typeof answer === "string") return void response.end(answer);
    if ("refused" in Object(answer)) response.statusCode = 400;
    response.end(JSON.stringify(typeof answer === "number" ? { error: { message: `status ${answer}` } } : answer));
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, requests };
}

const completion = (message: object, more: object = {}) => ({
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: null, ...message }, ...more }],
  usage: { prompt_tokens: 50, completion_tokens: 9 },
});
const refused = (message: string, param: string | null = null) => ({ refused: true, error: { message, param } });
const toolCall = (id: string, name: string, args: string) => ({
  id,
  type: "function",
  function: { name, arguments: args },
});

const notes: string[] = [];
afterEach(() => void notes.splice(0));

async function play(url: string, more: Partial<ApiSettings> = {}, turnSeconds = 5, played = task) {
  const settings: ApiSettings = {
    url,
    model: "m",
    key: "sk-secret",
    temperature: undefined,
    maxTokens: undefined,
    ...more,
  };
  const session = new ApiSession(
    new Dialect(settings, (note) => notes.push(note)),
    settings,
    opening(played, scenario, 4),
    2 ** 40 + 5,
  );
  const limits = {
    maxTurns: 4,
    maxTokens: 99,
    turnSeconds,
    toolSeconds: 1,
    rolloutSeconds: 30,
    onToolError: "observe" as const,
  };
  return playRollout({
    task: played,
    scenario,
    env: undefined,
    session,
    limits,
    signal: new AbortController().signal,
  });
}

describe("a model behind an OpenAI-compatible API", () => {
  it("plays through its own tool calls and is told their results by id", async () => {
    const { url, requests } = await serve(
      completion({
        content: "hm",
        tool_calls: [toolCall("x1", "add", '{"a":1,"b":1}'), toolCall("x2", "add", "{broken")],
      }),
      completion({ tool_calls: [toolCall("x3", "answer", '{"value":2}')] }),
    );
    const outcome = await play(url);
    expect(outcome).toMatchObject({
      end: "answered",
      turns: 2,
      completionTokens: 18,
      promptTokens: 100,
      tokens: undefined,
    });
    expect(outcome.reward.success).toBe(true);
    expect(requests[0]).toMatchObject({ model: "m", tools: [{ function: { name: "add" } }, {}, {}] });
    expect(requests[0]).not.toHaveProperty("temperature");
    expect(requests[0]).not.toHaveProperty("max_tokens");
    expect(requests[0]?.seed).toBe(5);
    const told = requests[1]?.messages.slice(-2);
    expect(told).toEqual([
      { role: "tool", tool_call_id: "x1", content: '{"sum":2}' },
      { role: "tool", tool_call_id: "x2", content: expect.stringMatching(/not valid JSON/) as string },
    ]);
  });

  it("is shown the worked examples of the prompt, each result with the id of its call", async () => {
    const { url, requests } = await serve(completion({ content: "I do not know." }));
    const example = (a: number, id?: string) => ({ name: "add", arguments: { a, b: 1 }, ...(id ? { id } : {}) });
    const shown = {
      ...task,
      prompt: () => [
        { role: "user", content: "What is 1 + 1, and 2 + 1?" },
        { role: "assistant", content: "", tool_calls: [example(1), example(2, "own")] },
        { role: "tool", name: "add", content: '{"sum":2}' },
        { role: "tool", name: "add", content: '{"sum":3}', id: "own" },
        { role: "assistant", content: "2 and 3." },
        { role: "user", content: "And 3 + 1?" },
      ],
    } as unknown as AnyTask;
    await play(url, {}, 5, shown);
    const called = (id: string, a: number) => toolCall(id, "add", `{"a":${a},"b":1}`);
    expect(requests[0]?.messages).toEqual([
      { role: "user", content: "What is 1 + 1, and 2 + 1?" },
      { role: "assistant", content: "", tool_calls: [called("example_0", 1), called("own", 2)] },
      { role: "tool", tool_call_id: "example_0", content: '{"sum":2}' },
      { role: "tool", tool_call_id: "own", content: '{"sum":3}' },
      { role: "assistant", content: "2 and 3." },
      { role: "user", content: "And 3 + 1?" },
    ]);
  });

  it("hears what a task answers to plain text, and is offered no tools where there are none", async () => {
    const { url, requests } = await serve(completion({ content: "one" }), completion({ content: "two" }));
    const talking = {
      ...task,
      tools: [],
      reply: (_: unknown, text: string) => (text === "two" ? null : `not ${text}`),
    } as AnyTask;
    const outcome = await play(url, {}, 5, talking);
    expect(outcome).toMatchObject({ end: "answered", answer: { text: "two" }, turns: 2 });
    expect(requests[0]).not.toHaveProperty("tools");
    expect(requests[1]?.messages.slice(-2)).toEqual([
      { role: "assistant", content: "one" },
      { role: "user", content: "not one" },
    ]);
  });

  it("is asked again after a 500", async () => {
    const { url, requests } = await serve(500, completion({ content: "I do not know." }));
    expect(await play(url)).toMatchObject({ end: "no_tool_call" });
    expect(requests).toHaveLength(2);
  });

  it("that was busy many times is still asked again after failures, with all its fields", async () => {
    const busy = { error: { message: "try again in 1ms", code: 429 } };
    const broken = { error: { message: "try again in 1ms", code: 503 } };
    const answers = [busy, busy, busy, busy, broken, busy, broken, completion({ content: "I do not know." })];
    const { url, requests } = await serve(...answers);
    expect(await play(url)).toMatchObject({ end: "no_tool_call" });
    expect(requests).toEqual(answers.map(() => requests[0]));
  });

  it("ends by the deadline when it hangs", async () => {
    const { url } = await serve();
    expect(await play(url, {}, 0.3)).toMatchObject({ end: "deadline", turns: 0 });
  });

  it("ends by the token limit when it is cut off", async () => {
    const { url } = await serve(completion({ content: "and so on and" }, { finish_reason: "length" }));
    expect(await play(url, { maxTokens: 5, temperature: 0.5 })).toMatchObject({ end: "token_limit", turns: 1 });
  });

  it("fails with one line that names the server, never the key, when it cannot be reached or refuses", async () => {
    const { url } = await serve(401);
    const refused = await play(url).catch((error: unknown) => error);
    expect((refused as Error).message).toMatch(new RegExp(`the model at ${url} did not answer: 401`));
    expect((refused as Error).message).not.toMatch(/secret|\n/);
  });

  it("that wants a key is told with the option and the variable to give it with", async () => {
    const { url } = await serve(401);
    await expect(play(url, { key: undefined })).rejects.toThrow(
      /did not answer: 401 status 401; give its key with --player-key or HONE_PLAYER_KEY/,
    );
  });
});

describe("a model behind a proxy", () => {
  const add = toolCall("x1", "add", '{"a":1,"b":1}');
  const answer = toolCall("x2", "answer", '{"value":2}');
  const streamed = (...deltas: object[]) =>
    [
      ...deltas.map((delta) => ({ choices: [{ index: 0, delta }] })),
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    ]
      .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
      .join("");

  it.each([
    ["in parts", completion({ content: [{ type: "text", text: "hm" }], tool_calls: [add] })],
    [
      "with arguments that were read already",
      completion({ content: "hm", tool_calls: [{ ...add, function: { name: "add", arguments: { a: 1, b: 1 } } }] }),
    ],
    [
      "without a type of the call, and with a number for its id",
      completion({ content: "hm", tool_calls: [{ id: 7, function: add.function }] }),
    ],
    ["with its call in the older form", completion({ content: "hm", function_call: add.function })],
    [
      "with a choice for the text and one for the call",
      {
        choices: [{ message: { content: "hm" } }, { message: { content: null, tool_calls: [add] } }],
        usage: { prompt_tokens: 50, completion_tokens: 9 },
      },
    ],
    [
      "as a stream that nobody asked for",
      streamed(
        { role: "assistant", content: "h" },
        {
          content: "m",
          tool_calls: [{ index: 0, id: "x1", type: "function", function: { name: "add", arguments: '{"a":1,' } }],
        },
        { tool_calls: [{ index: 0, function: { arguments: '"b":1}' } }] },
      ),
    ],
  ])("plays where it answers %s", async (_, first) => {
    const { url, requests } = await serve(first, completion({ tool_calls: [answer] }));
    const outcome = await play(url);
    expect(outcome).toMatchObject({ end: "answered", turns: 2 });
    expect(outcome.reward.success).toBe(true);
    expect(outcome.messages.find(({ role }) => role === "assistant")?.content).toBe("hm");
    const [said, told] = requests[1]?.messages.slice(-2) ?? [];
    expect(told?.tool_call_id).toBe(said?.tool_calls?.[0]?.id);
  });

  it("keeps two calls of one index apart that have ids of their own", async () => {
    const { url } = await serve(
      streamed(
        { tool_calls: [{ index: 0, ...add }] },
        { tool_calls: [{ index: 0, ...toolCall("x3", "add", '{"a":2,"b":2}') }] },
      ),
      completion({ tool_calls: [answer] }),
    );
    const { calls } = await play(url);
    expect(calls.map(({ arguments: given }) => given)).toEqual([{ a: 1, b: 1 }, { a: 2, b: 2 }, { value: 2 }]);
  });

  it("estimates an answer's tokens that the server does not tell, and leaves those of a prompt out, which cost something", async () => {
    const { url } = await serve({ ...completion({ content: "I do not know." }), usage: {} });
    const { promptTokens, completionTokens } = await play(url);
    expect(promptTokens).toBe(0);
    expect(completionTokens).toBe(Math.ceil("I do not know.".length / 3));
  });

  it.each([
    ["max_tokens", "Use 'max_completion_tokens' instead.", { maxTokens: 50 }, { max_completion_tokens: 50 }],
    ["temperature", "只支持默认值", { temperature: 0.5 }, {}],
    ["seed", "extra field", {}, {}],
  ])("does without %s where that is refused, and says so once", async (field, message, settings, instead) => {
    const { url, requests } = await serveBy((request) =>
      field in request
        ? refused(message)
        : completion(
            requests.length < 9 && request.messages.length < 4 ? { tool_calls: [add] } : { tool_calls: [answer] },
          ),
    );
    expect(await play(url, settings)).toMatchObject({ end: "answered", turns: 2 });
    expect(requests.at(-1)).toMatchObject(instead);
    expect(requests.at(-1)).not.toHaveProperty(field);
    expect(notes).toEqual([expect.stringMatching(new RegExp(`^does not take ${field} \\(400 ${message}\\)`))]);
  });

  it("that reasons is told not to where its server takes no tools otherwise", async () => {
    const message =
      "Function tools with reasoning_effort are not supported. Use /v1/responses or set reasoning_effort to 'none'.";
    const { url, requests } = await serveBy((request) =>
      request.reasoning_effort === "none" ? completion({ tool_calls: [answer] }) : refused(message, "reasoning_effort"),
    );
    expect(await play(url)).toMatchObject({ end: "answered" });
    expect(requests[1]?.tools).toHaveLength(3);
    expect(notes).toEqual([
      expect.stringMatching(/^does not take tools with reasoning .*sending reasoning_effort "none"/),
    ]);
  });

  it("is given its own thoughts back, as it named them, unless it refuses them", async () => {
    const first = completion({ content: "", reasoning_content: "add first", tool_calls: [add] });
    const taken = await serve(first, completion({ tool_calls: [answer] }));
    await play(taken.url);
    expect(taken.requests[1]?.messages.at(-2)).toMatchObject({ role: "assistant", reasoning_content: "add first" });
    server?.close();

    const thoughts = (request: Request) => JSON.stringify(request.messages).includes("reasoning_content");
    const answers = [first, completion({ tool_calls: [answer] })];
    const other = await serveBy((request) =>
      thoughts(request) ? refused("reasoning_content is not allowed") : answers.shift(),
    );
    expect(await play(other.url)).toMatchObject({ end: "answered", turns: 2 });
    expect(notes).toEqual([expect.stringMatching(/^does not take its own thoughts/)]);
  });

  it.each([
    [
      "a web page",
      "<html><title>New API</title></html>",
      /did not answer: 200 a web page \("New API"\); give the base URL .* --player-url/,
    ],
    [
      "no credit with 200",
      { error: { message: "令牌额度已用尽", code: "insufficient_user_quota" } },
      /did not answer: 200 令牌额度已用尽; its account has no credit/,
    ],
    ["a refusal of everything", refused("nope"), /did not answer: 400 nope$/],
  ])("fails at once with the server's text where it gets %s", async (_, reply, line) => {
    const { url } = await serveBy(() => reply);
    await expect(play(url)).rejects.toThrow(line);
  });
});
