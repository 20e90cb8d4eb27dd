import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { Dialect } from "../../src/openai/dialect.js";
import { ApiSession, type ApiSettings } from "../../src/rollout/api-session.js";
import { opening, playRollout } from "../../src/rollout/rollout.js";
import type { AnyTask, Scenario } from "../../src/tasks/task.js";
import { countingTask } from "../support/counting-task.js";

const task = countingTask as unknown as AnyTask;
const [scenario] = (await task.scenarios({})) as [Scenario];

interface Request {
  messages: { role: string; content: string; tool_call_id?: string }[];
  [key: string]: unknown;
}

let server: Server | undefined;
afterEach(() => server?.close());

async function body(request: IncomingMessage): Promise<Request> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text) as Request;
}

/** A chat server on loopback that gives the answers in turn and keeps what it was sent. */
async function serve(...answers: (object | number)[]) {
  const requests: Request[] = [];
  server = createServer(async (request, response) => {
    requests.push(await body(request));
    const answer = answers.shift();
    if (answer === undefined) return; // hangs
    response.statusCode = typeof answer === "number" ? answer : 200;
    response.setHeader("content-type", "application/json");
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
