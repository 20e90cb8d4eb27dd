/** An agent's requests to the endpoint of its own thread: what its client sees is what it would see over a connection. */
import OpenAI from "openai";
import { beforeAll, expect, test } from "vitest";
import { type Server, serveTiny } from "./support.js";

let server: Server;
beforeAll(async () => {
  // All the context that the model has, so that no endless turn ends by itself before it is aborted.
  server = await serveTiny({ apiKey: "secret", sequences: 2, context: 4096 });
});

const key = { authorization: "Bearer secret" };
const chat = { model: "tiny", messages: [{ role: "user", content: "Write." }], seed: 1, max_tokens: 8 };

const locally = (path: string, init?: RequestInit): Promise<Response> => {
  const answer = server.local(`${server.url}${path}`, init);
  if (!answer) throw new Error("not answered");
  return answer;
};

/** What every answer has anew. */
const steady = (text: string) =>
  text.replaceAll(/"(id|created)": ?("[^"]*"|\d+)/g, "").replaceAll(/"cached_tokens":\d+/g, "");

async function seen(answer: Promise<Response>): Promise<unknown> {
  const { url, ok, status, headers, redirected, bodyUsed, ...rest } = await answer.then(async (response) => {
    const { url, ok, status, headers, redirected, bodyUsed } = response;
    return { url, ok, status, headers, redirected, bodyUsed, text: await response.text() };
  });
  const told = ["content-type", "cache-control", "retry-after"].map((name) => headers.get(name));
  return [url, ok, status, redirected, bodyUsed, told, steady(rest.text)];
}

const post = (body: unknown, headers: Record<string, string> = key): RequestInit => ({
  method: "post",
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers,
});

test.each([
  ["a turn", "/chat/completions", post(chat)],
  ["a turn that is streamed", "/chat/completions", post({ ...chat, stream: true })],
  ["a turn by Anthropic's API", "/messages?beta=true", post({ ...chat, stream: true }, { "x-api-key": "secret" })],
  ["the models", "/models", { headers: new Headers(key) }],
  ["a wrong key", "/chat/completions", post(chat, { authorization: "Bearer public" })],
  ["no JSON", "/chat/completions", post("{")],
  ["no such option", "/chat/completions", post({ ...chat, logit_bias: { 1: 1 } })],
  ["no such route", "/chats", post(chat)],
  ["the wrong method", "/chat/completions", { headers: key }],
  ["a page of another site", "/models", { headers: { ...key, origin: "https://site.example" } }],
  ["a body of more than 16 MiB", "/chat/completions", post("é".repeat((8 << 20) + 1))],
])("%s is answered as over a connection", async (_, path, init) => {
  expect(await seen(locally(path, init))).toEqual(await seen(fetch(`${server.url}${path}`, init)));
});

test("OpenAI's client reads whole answers and streams", async () => {
  const client = new OpenAI({
    baseURL: server.url,
    apiKey: "secret",
    maxRetries: 0,
    fetch: (input, init) => server.local(input, init) ?? Promise.reject(new Error("not answered")),
  });
  const asked = { ...chat, messages: [{ role: "user" as const, content: "Write." }] };
  const { choices } = await client.chat.completions.create(asked);
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  expect(text.length).toBeGreaterThan(0);
  expect(text).toBe(choices[0]?.message.content);
  await expect(client.chat.completions.create({ ...asked, model: "huge" })).rejects.toThrow("404");
});

test("aborts end the turn, before it has begun, while it is sampled, and while it is read", async () => {
  const endless = { ...chat, temperature: 9, max_tokens: -1 };
  const idle = () => server.model.seats.counts.running === 0;
  const reason = new Error("enough");
  await expect(locally("/chat/completions", { ...post(endless), signal: AbortSignal.abort(reason) })).rejects.toBe(
    reason,
  );
  expect(idle()).toBe(true);
  const ended = async (abort: AbortController) => {
    abort.abort(reason);
    await expect.poll(idle).toBe(true);
  };

  const sampled = new AbortController();
  const whole = locally("/chat/completions", { ...post(endless), signal: sampled.signal });
  const { decoded } = server.engine.stats();
  await expect.poll(() => server.engine.stats().decoded, { interval: 1 }).toBeGreaterThan(decoded);
  await Promise.all([expect(whole).rejects.toBe(reason), ended(sampled)]);

  const read = new AbortController();
  const stream = await locally("/chat/completions", { ...post({ ...endless, stream: true }), signal: read.signal });
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
  expect((await reader.read()).done).toBe(false);
  const rest = (async () => {
    while (!(await reader.read()).done);
  })();
  await Promise.all([expect(rest).rejects.toBe(reason), ended(read)]);

  const left = await locally("/chat/completions", post({ ...endless, stream: true }));
  await left.body?.cancel();
  await expect.poll(idle).toBe(true);
});

test("a signal of many requests keeps no listener of those that have ended", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners++;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners--;
    remove(...args);
  };
  await (await locally("/models", { headers: key, signal })).text();
  expect(listeners).toBe(0);
});

test("requests of other forms and to other places are left to fetch", () => {
  const { url } = server;
  const others: [unknown, RequestInit?][] = [
    ["http://127.0.0.1:1/v1/models"],
    [`${url.replace("/v1", "")}0/v1/models`],
    [new Request(`${url}/models`)],
    [`${url}/models`, { method: "POST", body: new FormData() }],
    [`${url}/models`, { method: "GET", body: "{}" }],
    [`${url}/models`, { dispatcher: {} } as RequestInit],
  ];
  for (const [input, init] of others) expect(server.local(input, init)).toBeUndefined();
});
