/** Many clients, clients that vanish, and what is no request at all. */
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import type OpenAI from "openai";
import { APIError } from "openai";
import { expect, test } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { openEndpoint } from "../../src/serve/server.js";
import { ask, type Server, serveTiny } from "./support.js";

/** Writes up to the context's end: at this temperature the model finds none itself. */
const endless = (words = "Write.") => ({
  model: "tiny",
  messages: [{ role: "user" as const, content: words }],
  temperature: 9,
  seed: 1,
});

async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A stream that has begun, and what ends its client. */
async function streaming({ client }: Server, words?: string) {
  const gone = new AbortController();
  const stream = await client.chat.completions.create({ ...endless(words), stream: true }, { signal: gone.signal });
  const parts = stream[Symbol.asyncIterator]();
  await parts.next();
  return { parts, gone };
}

test("200 connections at once are all answered, in their order", async () => {
  const server = await serveTiny({ sequences: 4, context: 256 });
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      ask(server.client, { messages: [{ role: "user", content: `Number ${index}` }], max_tokens: 2, seed: index }),
    ),
  );
  expect(answers.map(({ hone }) => hone.seed)).toEqual(Array.from({ length: 200 }, (_, index) => index));
  const { running, waiting, idle } = server.model.seats.counts;
  expect([running, waiting]).toEqual([0, 0]);
  expect(idle).toBeLessThanOrEqual(4);
  expect(server.engine.stats().sequences.open).toBeLessThanOrEqual(4);
  await server.close();
});

test("a client that vanishes takes its turn with it, while it runs and while it waits", async () => {
  // All that the model has, so that a turn does not end by itself while a busy machine lets the clients wait.
  const context = 4096;
  const server = await serveTiny({ sequences: 1, context });
  const { gone } = await streaming(server);
  const left = new AbortController();
  const waiting = server.client.chat.completions.create(endless("Later."), { signal: left.signal });
  await until(() => server.model.seats.counts.waiting === 1);
  left.abort();
  await expect(waiting).rejects.toThrow();
  await until(() => server.model.seats.counts.waiting === 0);
  expect(server.model.seats.counts.running).toBe(1);
  gone.abort();
  await until(() => server.model.seats.counts.running === 0);
  expect(server.engine.stats().decoded).toBeLessThan(context - 100);
  // The server goes on, and what was not finished is not remembered.
  expect((await ask(server.client, { ...endless(), max_tokens: 3 })).hone.continued).toBe(false);
  expect(server.model.recorder.size.points).toBe(1);
  const metrics = await (await fetch(server.url.replace("/v1", "/metrics"))).text();
  expect(metrics).toContain("hone_requests_cancelled_total 2");
  await server.close();
});

test("a token that is sampled before its client has left, and comes after, does not keep the server from ending", async () => {
  const server = await serveTiny();
  const left = new AbortController();
  const late = new Promise<void>((came) => {
    server.model.answer = async (_, { signal, onText }) => {
      left.abort();
      await once(signal, "abort");
      onText?.("The first words.");
      came();
      throw signal.reason;
    };
  });
  const stream = { ...endless(), stream: true as const };
  await expect(server.client.chat.completions.create(stream, { signal: left.signal })).rejects.toThrow();
  await late;
  await server.close();
});

test("a full queue refuses with 429, and takes more when it is not full", async () => {
  const server = await serveTiny({ sequences: 1 });
  // The one seat is taken for as long as the test wants: on a fast machine a turn may end before the queue is full.
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const holding = server.model.seats.run(new AbortController().signal, () => held);
  const many = Array.from({ length: 5 }, () => ask(server.client, { ...endless("x"), n: 128, max_tokens: 1 }));
  const refused = await Promise.any(
    many.map((one) =>
      one.then(
        () => Promise.reject(),
        (error: unknown) => error,
      ),
    ),
  );
  expect(refused).toBeInstanceOf(APIError);
  const { status, code, headers } = refused as APIError;
  expect([status, code, headers?.get("retry-after")]).toEqual([429, "queue_full", "1"]);
  release();
  await holding;
  const settled = await Promise.allSettled(many);
  expect(settled.filter((one) => one.status === "fulfilled")).toHaveLength(4);
  await server.close();
});

test("what is wrong with a request is told by OpenAI's status codes", async () => {
  const server = await serveTiny({ apiKey: "secret" });
  const { url } = server;
  const key = { authorization: "Bearer secret" };
  const post = (path: string, body: string, headers: Record<string, string> = key) =>
    fetch(`${url}${path}`, { method: "POST", body, headers });
  const codeOf = async (answer: Promise<Response>) => {
    const got = await answer;
    const { error } = (await got.json()) as { error: { type: string; code: string | null } };
    return [got.status, error.code];
  };
  const chat = JSON.stringify({ ...endless(), max_tokens: 1 });
  expect(await codeOf(post("/chat/completions", chat, {}))).toEqual([401, "invalid_api_key"]);
  expect(await codeOf(post("/chat/completions", chat, { authorization: "Bearer secre" }))).toEqual([
    401,
    "invalid_api_key",
  ]);
  expect(await codeOf(post("/chat/completions", "{"))).toEqual([400, null]);
  expect(await codeOf(post("/chat/completions", "[]"))).toEqual([400, "invalid_value"]);
  expect(await codeOf(post("/chat/completions", chat.replace("tiny", "huge")))).toEqual([404, "model_not_found"]);
  expect(await codeOf(post("/embeddings", "{}"))).toEqual([404, "unsupported_endpoint"]);
  expect(await codeOf(post("/images", "{}"))).toEqual([404, null]);
  const short = await fetch(url.replace("/v1", "/chat/completions"), { method: "POST", headers: key, body: "{}" });
  expect([short.status, await short.text()]).toEqual([404, expect.stringContaining("it is /v1/chat/completions")]);
  expect(await codeOf(fetch(`${url}/chat/completions`, { headers: key }))).toEqual([405, null]);
  expect(await codeOf(post("/chat/completions", `"${"x".repeat(17 << 20)}"`))).toEqual([413, "request_too_large"]);
  const page = { ...key, origin: "https://pages.example" };
  expect(await codeOf(post("/chat/completions", chat, page))).toEqual([403, "forbidden"]);
  const rebound = await new Promise((resolve) => {
    const headers = { ...key, host: "pages.example" };
    httpRequest(`${url}/models`, { headers }, ({ statusCode }) => resolve(statusCode)).end();
  });
  expect(rebound).toBe(403);
  expect((await post("/chat/completions", chat, { ...key, origin: "http://localhost:3000" })).status).toBe(200);
  const open = url.replace("/v1", "");
  expect(await (await fetch(`${open}/health`)).json()).toEqual({ status: "ok" });
  expect((await fetch(`${open}/metrics`)).status).toBe(401);
  const metrics = await (await fetch(`${open}/metrics`, { headers: key })).text();
  expect(metrics).toContain('hone_requests_total{route="/v1/chat/completions",status="401"} 2');
  expect((await server.client.models.list()).data.map(({ id }) => id)).toEqual(["tiny"]);
  expect((await server.client.models.retrieve("tiny")).id).toBe("tiny");
  await server.close();
});

test("a port in use is told in one line", async () => {
  const server = await serveTiny();
  const port = Number(new URL(server.url).port);
  const second = openEndpoint({ port, apiKey: undefined, models: [server.model] });
  await expect(second).rejects.toThrow(
    new HoneError(`port ${port} is taken; give another --port, or 0 for any that is free`),
  );
  await server.close();
});

test("a server that ends lets requests end in its grace, takes none, and leaves no sequence", async () => {
  const server = await serveTiny({ sequences: 2 });
  const { parts } = await streaming(server);
  const closing = server.close(600);
  await expect(ask(server.client, { ...endless(), max_tokens: 1 })).rejects.toThrow();
  let last: OpenAI.ChatCompletionChunk | undefined;
  for (let part = await parts.next(); !part.done; part = await parts.next()) last = part.value;
  expect(last?.choices[0]?.finish_reason).toMatch(/length|stop/);
  await closing;
});

test("what has not ended after the grace is told that the server ends", async () => {
  const server = await serveTiny({ sequences: 2, context: 4096 });
  const { parts } = await streaming(server);
  const closing = server.close(0);
  const read = async () => {
    for (let part = await parts.next(); !part.done; part = await parts.next());
  };
  await expect(read()).rejects.toThrow(/shutting down/);
  await closing;
});

test("a client that does not send the rest of its request does not keep the server from ending", async () => {
  const server = await serveTiny();
  const { port, host } = new URL(server.url);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write(`POST /v1/completions HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n{`);
  // The request is being read.
  expect(String(await once(socket, "data"))).toContain("100 Continue");
  await server.close(0);
  socket.destroy();
});
