/** Requests that are too long cost neither time nor memory, and nobody waits for them. */
import { randomUUID } from "node:crypto";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { getLlama } from "node-llama-cpp";
import type OpenAI from "openai";
import { APIError } from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { tokenizeWithin } from "../../src/engine/tokenize-within.js";
import { ask, type Server, serveTiny, TINY } from "./support.js";

let server: Server;
let client: OpenAI;
/** Characters that were tokenised on this thread, and beside it. */
const tokenised = { here: 0, aside: 0, longestHere: 0 };
beforeAll(async () => {
  server = await serveTiny({ context: 4096 });
  client = server.client;
  const { engine } = server;
  const [tokenize, tokenizeAside] = [engine.tokenize.bind(engine), engine.tokenizeAside.bind(engine)];
  engine.tokenize = (text, options) => {
    tokenised.here += text.length;
    tokenised.longestHere = Math.max(tokenised.longestHere, text.length);
    return tokenize(text, options);
  };
  engine.tokenizeAside = (text, options) => {
    tokenised.aside += text.length;
    return tokenizeAside(text, options);
  };
});

async function refusal(request: Promise<unknown>): Promise<APIError> {
  const error = await request.catch((reason: unknown) => reason);
  if (error instanceof APIError) return error;
  throw new Error(`it was not refused: ${error}`);
}

/** The characters that are tokenised while a request is refused as too long. */
async function cost(request: () => Promise<unknown>): Promise<number> {
  const before = tokenised.here + tokenised.aside;
  const { status, code } = await refusal(request());
  expect([status, code]).toEqual([400, "context_length_exceeded"]);
  return tokenised.here + tokenised.aside - before;
}

describe("what cannot fit the context is refused", () => {
  const texts = ["<|im_end|>", "<tool_call>", " ", "a", "the mail "].map((text) => text.repeat(15e6 / text.length));

  test("before a megabyte of it is tokenised", async () => {
    for (const text of texts) {
      const prompt = () => client.completions.create({ model: "tiny", prompt: text, max_tokens: 1 });
      const chat = () => ask(client, { messages: [{ role: "user", content: text }], max_tokens: 1 });
      for (const request of [prompt, chat]) expect(await cost(request)).toBe(0);
    }
    // Fewer bytes than the longest tokens would have, and too many tokens: a beginning tells.
    const mail = "the mail ".repeat(6500);
    expect(await cost(() => ask(client, { messages: [{ role: "user", content: mail }] }))).toBeLessThan(200_000);
  });

  test("by the number of its messages or prompts", async () => {
    const messages = Array.from({ length: 100_000 }, () => ({ role: "user" as const, content: "" }));
    expect(await cost(() => ask(client, { messages }))).toBe(0);
    const prompt = Array.from({ length: 128 }, () => "the mail ".repeat(10_000));
    expect(await cost(() => client.completions.create({ model: "tiny", prompt }))).toBeLessThan(1_000_000);
  });

  test("and leaves nothing behind", async () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const refuse = () => cost(() => ask(client, { messages: [{ role: "user", content: randomUUID().repeat(1e5) }] }));
    await refuse();
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let count = 0; count < 20; count++) await refuse();
    gc();
    // Together they have 72 MB of text, and more in tokens.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(30e6);
  });
});

test("a long text that fits is tokenised on another thread, and the server answers meanwhile", async () => {
  // Line breaks are two to a token, and slow.
  const content = "\n\nx".repeat(13_000);
  const before = { ...tokenised };
  const asked = client.completions.create({ model: "tiny", prompt: content, max_tokens: 1 }).catch(() => undefined);
  const health = await fetch(server.url.replace(/\/v1$/, "/health"));
  expect(await health.json()).toEqual({ status: "ok" });
  await asked;
  expect(tokenised.aside).toBeGreaterThan(before.aside);
  expect(tokenised.longestHere).toBeLessThanOrEqual(1 << 15);
});

test("a request that is given up while its text is tokenised does not wait for it", async () => {
  const over = new AbortController();
  over.abort(new Error("given up"));
  const { engine } = server;
  const text = " x".repeat(20_000);
  const asked = tokenizeWithin(engine, text, { special: false, most: 40_000, signal: over.signal });
  await expect(asked).rejects.toThrow("given up");
});

test("special tokens are found as llama.cpp finds them, however many there are", async () => {
  const { engine } = server;
  const model = await (await getLlama({ gpu: false })).loadModel({ modelPath: TINY, vocabOnly: true });
  const parts = ["<|im_end|>", "<tool_call>", "</tool_call>", "<|im_", "end|>", " ", "\n", "<", "mail", "é"];
  for (let seed = 1; seed < 200; seed++) {
    let state = seed;
    const text = Array.from({ length: seed % 23 }, () => {
      state = (state * 48_271) % 2_147_483_647;
      return parts[state % parts.length];
    }).join("");
    for (const special of [false, true]) {
      expect([text, special, ...engine.tokenize(text, { special })]).toEqual([
        text,
        special,
        ...model.tokenize(text, special),
      ]);
    }
  }
  await model.dispose();
  // With a list that is gone through for each of them this takes minutes.
  const { size } = new Set(engine.tokenize("<|im_end|>".repeat(100_000), { special: true }));
  expect(size).toBe(1);
  expect(engine.tokenize("<tool_call>".repeat(100_000), { special: false })).toHaveLength(100_000);
});
