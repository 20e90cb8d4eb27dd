import { afterEach, describe, expect, it } from "vitest";
import { Cap } from "../../src/judge/budget.js";
import { JudgeStopped } from "../../src/judge/client.js";
import type { Clock } from "../../src/judge/limits.js";
import { retryAfter } from "../../src/serve/openai/failure.js";
import { clientOf, fastClock, never, sleepersClock } from "./support/judging.js";
import { type ChatServer, completion, type Reply, type Request, startServer } from "./support/server.js";

const servers: ChatServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(answer: (request: Request, index: number) => Reply | Promise<Reply>, port?: number) {
  const server = await startServer(answer, port);
  servers.push(server);
  return server;
}

const question = {
  messages: [{ role: "user" as const, content: "Is it right? Answer with JSON." }],
  form: { name: "verdict", schema: { type: "object" }, within: () => ({ type: "object" }) },
};
const right = '{"accept": true}';

describe("what is sent", () => {
  it("goes to the base URL as it was given, with /v1 and without", async () => {
    const { port, requests } = await serve(() => completion(right));
    for (const base of ["", "/", "/v1", "/v1/", "/proxy/openai/v1", "/v1/chat/completions", "/azure?api-version=1"]) {
      await clientOf({ url: `http://127.0.0.1:${port}${base}` }).client.ask(question, never);
    }
    expect(requests.map(({ path }) => path)).toEqual([
      "/chat/completions",
      "/chat/completions",
      "/v1/chat/completions",
      "/v1/chat/completions",
      "/proxy/openai/v1/chat/completions",
      "/v1/chat/completions",
      "/azure/chat/completions?api-version=1",
    ]);
  });

  it("has a strict schema, and neither temperature nor a token limit unless they are set", async () => {
    const { url, requests } = await serve(() => completion(right));
    await clientOf({ url }).client.ask(question, never);
    await clientOf({ url, temperature: 0, maxTokens: 700 }).client.ask(question, never);
    expect(Object.keys(requests[0]?.body ?? {}).sort()).toEqual(["messages", "model", "response_format", "stream"]);
    expect(requests[0]?.body.response_format).toMatchObject({ type: "json_schema", json_schema: { strict: true } });
    expect(requests[1]?.body).toMatchObject({ temperature: 0, max_tokens: 700 });
  });
});

/** Refusals and answers as each server words them. */
describe("servers that take less", () => {
  const formats = (requests: readonly Request[]) => requests.map(({ body }) => body.response_format?.type ?? "text");

  it("OpenAI's reasoning models: temperature is dropped, the token limit renamed, each once and said", async () => {
    const { url, requests } = await serve(({ body }) => {
      if (body.max_tokens !== undefined) {
        const message =
          "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        const error = { message, type: "invalid_request_error", param: "max_tokens", code: "unsupported_parameter" };
        return { status: 400, json: { error } };
      }
      if (body.temperature !== undefined) {
        const message =
          "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.";
        const error = { message, type: "invalid_request_error", param: "temperature", code: "unsupported_value" };
        return { status: 400, json: { error } };
      }
      return completion(right);
    });
    const { client, said } = clientOf({ url, temperature: 0, maxTokens: 700, model: "gpt-6.1-terra" });
    expect((await client.ask(question, never)).text).toBe(right);
    await client.ask(question, never);
    expect(requests).toHaveLength(4);
    expect(requests[3]?.body).toMatchObject({ max_completion_tokens: 700, response_format: { type: "json_schema" } });
    expect(said).toEqual([
      expect.stringMatching(/does not take max_tokens .*sending max_completion_tokens from now on/),
      expect.stringMatching(/does not take temperature .*not sent from now on/),
    ]);
    expect(client.usage().requests).toBe(4);
  });

  it("OpenAI's older models: JSON mode where there is no schema", async () => {
    const { url, requests } = await serve(({ body }) => {
      if (body.response_format?.type !== "json_schema") return completion(right);
      const message =
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more.";
      const error = { message, type: "invalid_request_error", param: "response_format", code: null };
      return { status: 400, json: { error } };
    });
    const { client, said } = clientOf({ url });
    await client.ask(question, never);
    await client.ask(question, never);
    expect(formats(requests)).toEqual(["json_schema", "json_object", "json_object"]);
    expect(said).toEqual([expect.stringMatching(/json_schema .*JSON without a schema/)]);
  });

  it("LM Studio: no JSON mode, and an error that is a bare text", async () => {
    const { url, requests } = await serve(({ body }) => {
      if (body.response_format === undefined) return completion(right, { reasoning_content: "" });
      return { status: 400, json: { error: "'response_format.type' must be 'text'" } };
    });
    const { client } = clientOf({ url });
    expect((await client.ask(question, never)).text).toBe(right);
    expect(formats(requests)).toEqual(["json_schema", "json_object", "text"]);
  });

  it("vLLM: an error without the usual frame, thoughts beside the answer, no content at times", async () => {
    const { url, requests } = await serve(({ body }, index) => {
      if (body.response_format?.type === "json_schema") {
        const message = "The provided JSON schema contains features not supported by xgrammar.";
        return { status: 400, json: { object: "error", message, type: "BadRequestError", param: null, code: 400 } };
      }
      return completion(index === 1 ? null : right, { reasoning_content: "Let me see.", tool_calls: [] });
    });
    const { client, said } = clientOf({ url });
    expect(await client.ask(question, never)).toEqual({ text: "", cut: false, cost: null });
    expect((await client.ask(question, never)).text).toBe(right);
    expect(formats(requests)).toEqual(["json_schema", "json_object", "json_object"]);
    expect(said[0]).toContain("features not supported by xgrammar");
  });

  it("Ollama: a model that is not there stops the judge with its own words", async () => {
    const error = {
      message: 'model "qwen" not found, try pulling it first',
      type: "api_error",
      param: null,
      code: null,
    };
    const { url } = await serve(() => ({ status: 404, json: { error } }));
    await expect(clientOf({ url, model: "qwen" }).client.ask(question, never)).rejects.toThrow(
      /the judge qwen at .* cannot be asked: 404 model "qwen" not found, try pulling it first; check --judge-model, and whether --judge-url has to end in \/v1/,
    );
  });

  it("llama-server: waits while the model loads; a question beyond its context is lost, not the judge", async () => {
    const loading = { error: { code: 503, message: "Loading model", type: "unavailable_error" } };
    const tooLong = {
      error: {
        code: 400,
        message: "the request exceeds the available context size, try increasing it",
        type: "exceed_context_size_error",
        n_prompt_tokens: 9000,
        n_ctx: 4096,
      },
    };
    const { url } = await serve((_, index) =>
      index === 0 ? { status: 503, json: loading } : index === 1 ? completion(right) : { status: 400, json: tooLong },
    );
    const { client } = clientOf({ url });
    expect((await client.ask(question, never)).text).toBe(right);
    await expect(client.ask(question, never)).rejects.toMatchObject({ reason: "too_long" });
  });

  it("a refusal that was under way when the limit had its new name leaves it there", async () => {
    let renamed: () => void = () => undefined;
    const known = new Promise<void>((resolve) => {
      renamed = resolve;
    });
    let refused = 0;
    const { url, requests } = await serve(async ({ body }) => {
      if (body.max_tokens === undefined) {
        renamed();
        return completion(right);
      }
      // All but the first are refused when the new name has been tried.
      if (++refused > 1) await known;
      const message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.";
      return { status: 400, json: { error: { message, param: "max_tokens" } } };
    });
    const { client, said } = clientOf({ url, maxTokens: 700 });
    await Promise.all([1, 2, 3, 4].map(() => client.ask(question, never)));
    const without = requests.filter(({ body }) => body.max_tokens === undefined);
    expect(without.map(({ body }) => body.max_completion_tokens)).toEqual([700, 700, 700, 700]);
    expect(said).toEqual([expect.stringMatching(/sending max_completion_tokens from now on/)]);
  });

  it("what others were answered with stays, though one question is refused with it", async () => {
    const long = { ...question, messages: [{ role: "user" as const, content: "a long question" }] };
    const { url, requests } = await serve(({ body }) => {
      const fits = body.max_tokens === undefined || body.messages[0]?.content !== "a long question";
      const message = "'max_tokens' is too large: 700. This model's maximum context length is 4096 tokens.";
      return fits ? completion(right) : { status: 400, json: { error: { message, code: "BadRequestError" } } };
    });
    const { client, said } = clientOf({ url, maxTokens: 700, concurrency: 1 });
    for (const asked of [question, long, question]) expect((await client.ask(asked, never)).text).toBe(right);
    expect(requests.at(-1)?.body.max_tokens).toBe(700);
    expect(said).toEqual([]);
  });

  it("what was taken is not given up for refusals of one moment", async () => {
    let page = 0;
    const { url, requests } = await serve(() =>
      page-- > 0
        ? { status: 403, headers: { "content-type": "text/html" }, text: "<html>busy</html>" }
        : completion(right),
    );
    const { client, said } = clientOf({ url });
    await client.ask(question, never);
    page = 3;
    await Promise.all([1, 2, 3].map(() => client.ask(question, never)));
    page = 3;
    await Promise.all([1, 2, 3].map(() => client.ask(question, never)));
    await client.ask(question, never);
    expect(said).toEqual([]);
    expect(formats(requests).at(-1)).toBe("json_schema");
  });

  it("what one question alone is refused for is that question's, and costs no field", async () => {
    const { url, requests } = await serve(({ body }) =>
      body.messages[0]?.content === "poison"
        ? { status: 400, json: { error: { message: "nein" } } }
        : completion(right),
    );
    const poison = { ...question, messages: [{ role: "user" as const, content: "poison" }] };
    const { client, said } = clientOf({ url, temperature: 0, maxTokens: 700 });
    await expect(client.ask(poison, never)).rejects.toMatchObject({ reason: "bad_request", message: "400 nein" });
    expect((await client.ask(question, never)).text).toBe(right);
    const asked = requests.length;
    // A second one like it is known, since others are answered.
    await expect(client.ask(poison, never)).rejects.toMatchObject({ reason: "bad_request" });
    expect(requests).toHaveLength(asked + 1);
    expect((await client.ask(question, never)).text).toBe(right);
    expect(requests.at(-1)?.body).toMatchObject({
      temperature: 0,
      max_tokens: 700,
      response_format: { type: "json_schema" },
    });
    expect(said).toEqual([]);
  });

  it("a refusal that was one question's is asked about again once nothing else is answered: by then it is everybody's", async () => {
    let blocked = false;
    const page = { status: 403, headers: { "content-type": "text/html" }, text: "<html>Access denied</html>" };
    const { url } = await serve(({ body }) =>
      blocked || body.messages[0]?.content === "poison" ? page : completion(right),
    );
    const poison = { ...question, messages: [{ role: "user" as const, content: "poison" }] };
    const { client } = clientOf({ url, patience: 20 }, undefined, sleepersClock());
    await expect(client.ask(poison, never)).rejects.toMatchObject({ reason: "bad_request" });
    blocked = true;
    await expect(client.ask(question, never)).rejects.toThrow(/has not answered for \d+ s \(--judge-patience\): 403/);
  });

  it("thoughts that a server counts beside the completion's tokens are counted", async () => {
    const usage = {
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens: 135,
      completion_tokens_details: { reasoning_tokens: 94 },
    };
    const { url } = await serve(() => ({ json: { choices: [{ message: { content: right } }], usage } }));
    const { client } = clientOf({ url });
    await client.ask(question, never);
    expect(client.usage()).toMatchObject({ prompt_tokens: 32, completion_tokens: 103 });
  });

  it("no usage: tokens are estimated", async () => {
    const { url } = await serve(() => ({ json: { choices: [{ message: { content: right } }] } }));
    const { client } = clientOf({ url });
    await client.ask(question, never);
    expect(client.usage().prompt_tokens).toBeGreaterThan(10);
    expect(client.usage().completion_tokens).toBe(Math.ceil(right.length / 3));
  });
});

describe("a server in trouble", () => {
  it.each([
    ["500", { status: 500, json: { error: { message: "oops" } } }],
    ["an answer that is no completion", { json: { result: "ok" } }],
    ["a completion without choices", { json: { choices: [], usage: { prompt_tokens: 9 } } }],
    ["garbage", { text: "upstream connect error" }],
    ["an error with 200 that names a passing status", { json: { error: { message: "upstream", code: 502 } } }],
    ["an answer that does not end", { endless: '{"choices": [' }],
    ["a cut answer", { cut: '{"choices": [{"mess' }],
    ["429", { status: 429, json: { error: { message: "slow down" } } }],
  ] satisfies [string, Reply][])("is asked again after %s, and the request counted", async (_, trouble) => {
    const { url } = await serve((_request, index) => (index < 2 ? (trouble as Reply) : completion(right)));
    const { client } = clientOf({ url });
    expect((await client.ask(question, never)).text).toBe(right);
    expect(client.usage()).toMatchObject({ requests: 3, prompt_tokens: 100, completion_tokens: 20 });
  });

  it("is asked again after it hung for --judge-timeout", async () => {
    const { url } = await serve((_, index) => (index === 0 ? { hang: true } : completion(right)));
    const { client } = clientOf({ url, timeout: 2 });
    expect((await client.ask(question, never)).text).toBe(right);
    expect(client.usage().requests).toBe(2);
  });

  it("is believed when it says how long to wait, for all questions", async () => {
    const times: number[] = [];
    const { url } = await serve((_, index) => {
      times.push(performance.now());
      return index === 0
        ? { status: 429, headers: { "retry-after": "30" }, json: { error: { message: "slow down" } } }
        : completion(right);
    });
    const { client } = clientOf({ url, concurrency: 1 }, undefined, fastClock(100));
    await Promise.all([client.ask(question, never), client.ask(question, never)]);
    // 30 seconds are 300 ms on this clock.
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(280);
    expect(times).toHaveLength(3);
  });

  it("reads Retry-After as seconds, as a date, and in OpenAI's milliseconds", () => {
    const now = Date.parse("Wed, 21 Oct 2026 07:28:00 GMT");
    expect(retryAfter(new Headers({ "retry-after": "1.5" }), now)).toBe(1500);
    expect(retryAfter(new Headers({ "retry-after": "Wed, 21 Oct 2026 07:28:10 GMT" }), now)).toBe(10_000);
    expect(retryAfter(new Headers({ "retry-after-ms": "250", "retry-after": "9" }), now)).toBe(250);
    expect(retryAfter(new Headers({ "retry-after": "soon" }), now)).toBeUndefined();
    expect(retryAfter(new Headers({ "retry-after": "1m2.5s" }), now)).toBe(62_500);
    expect(retryAfter(new Headers({ "retry-after": "700ms" }), now)).toBe(700);
    // Now is no time to wait: hone waits by its own rule.
    expect(retryAfter(new Headers({ "retry-after": "0" }), now)).toBeUndefined();
    expect(retryAfter(new Headers(), now)).toBeUndefined();
  });

  it("gives up a question that fails while others are answered", async () => {
    const { url } = await serve(({ body }) =>
      body.messages[0]?.content === "poison"
        ? { status: 500, json: { error: { message: "boom" } } }
        : completion(right),
    );
    const { client } = clientOf({ url });
    const poison = { ...question, messages: [{ role: "user" as const, content: "poison" }] };
    const lost = client.ask(poison, never).catch((error: unknown) => error);
    const others = setInterval(() => void client.ask(question, never).catch(() => undefined), 20);
    expect(await lost).toMatchObject({ reason: "server_error", message: "500 boom" });
    clearInterval(others);
  });

  it("that answers nothing for a while loses no question, also none that was asked while it answered", async () => {
    const clock = fastClock(200);
    let from = Number.POSITIVE_INFINITY;
    const { url } = await serve((_, index) => {
      if (index === 10) from = clock.now();
      const away = clock.now() - from < 40_000;
      return away ? { status: 500, json: { error: { message: "restarting" } } } : completion(right);
    });
    const { client } = clientOf({ url, patience: 100_000 }, undefined, clock);
    const answers = await Promise.all(Array.from({ length: 40 }, () => client.ask(question, never)));
    expect(answers).toHaveLength(40);
  });

  it.each([
    ["an error", { status: 500, json: { error: { message: "boom" } } }, "server_error"],
    ["no answer", { json: { choices: [] } }, "bad_response"],
  ] satisfies [string, Reply, string][])(
    "loses the question alone to which it always gives %s, though no other is asked",
    async (_, trouble, reason) => {
      const { url } = await serve(({ body }) =>
        body.messages[0]?.content === "poison" ? (trouble as Reply) : completion(right),
      );
      const { client } = clientOf({ url, patience: 15 }, undefined, sleepersClock());
      const poison = { ...question, messages: [{ role: "user" as const, content: "poison" }] };
      await expect(client.ask(poison, never)).rejects.toMatchObject({ reason });
      expect((await client.ask(question, never)).text).toBe(right);
    },
  );

  it("that is busy four times and breaks once loses no question", async () => {
    const busy: Reply = { status: 429, json: { error: { message: "slow down" } } };
    const failing = [busy, busy, busy, busy, { status: 500, json: { error: { message: "boom" } } }];
    const { url } = await serve(({ body }) => {
      const unlucky = body.messages[0]?.content === "unlucky" ? failing.shift() : undefined;
      return unlucky ?? completion(right);
    });
    const { client } = clientOf({ url });
    const others = setInterval(() => void client.ask(question, never).catch(() => undefined), 20);
    const unlucky = { ...question, messages: [{ role: "user" as const, content: "unlucky" }] };
    const { text } = await client.ask(unlucky, never).finally(() => clearInterval(others));
    expect(text).toBe(right);
  });

  it("that is busy at first, and then breaks once, gets all fields of the question", async () => {
    const busy: Reply = { status: 429, json: { error: { message: "slow down" } } };
    const failing = [busy, busy, busy, busy, { status: 500, json: { error: { message: "boom" } } }];
    const { url, requests } = await serve(() => failing.shift() ?? completion(right));
    const { client } = clientOf({ url, temperature: 0 }, undefined, sleepersClock());
    expect((await client.ask(question, never)).text).toBe(right);
    expect(requests.map(({ body }) => [body.temperature, body.response_format?.type])).toEqual(
      requests.map(() => [0, "json_schema"]),
    );
  });

  it("that names ever again a time too short to wait is asked more and more seldom", async () => {
    const clock = sleepersClock();
    const { url, requests } = await serve(() => ({
      status: 429,
      headers: { "retry-after": "6ms" },
      json: { error: { message: "try again in 6ms" } },
    }));
    const { client } = clientOf({ url, patience: 60 }, undefined, clock);
    await expect(client.ask(question, never)).rejects.toThrow("has not answered for");
    expect(requests.length).toBeLessThan(20);
  });

  it("that is busy has --judge-patience from a question's first failure, however long it waited for its turn", async () => {
    const clock = sleepersClock();
    const asked: string[] = [];
    const { url } = await serve(({ body }) => {
      const text = String(body.messages[0]?.content);
      asked.push(text);
      if (text !== "late") {
        // Each answer takes ten minutes of the clock.
        clock.time += 600_000;
        return completion(right);
      }
      const busy = asked.filter((one) => one === text).length < 3;
      return busy ? { status: 429, json: { error: { message: "slow down" } } } : completion(right);
    });
    const { client } = clientOf({ url, patience: 300, concurrency: 1 }, undefined, clock);
    const ask = (content: string) => client.ask({ ...question, messages: [{ role: "user", content }] }, never);
    const answers = await Promise.all([ask("first"), ask("second"), ask("late")]);
    expect(answers.map(({ text }) => text)).toEqual([right, right, right]);
    expect(asked).toEqual(["first", "second", "late", "late", "late"]);
  });

  it("whose proxy answers with a page about one question loses that question alone", async () => {
    const page = (status: number): Reply => ({
      status,
      headers: { "content-type": "text/html" },
      text: `<html><body><h1>${status}</h1></body></html>`,
    });
    const { url } = await serve(({ body }) => {
      const text = String(body.messages[0]?.content);
      return /^\d+$/.test(text) ? page(Number(text)) : completion(right);
    });
    const { client } = clientOf({ url });
    const ask = (content: string) => client.ask({ ...question, messages: [{ role: "user", content }] }, never);
    await ask("fine");
    await expect(ask("413")).rejects.toMatchObject({ reason: "too_long" });
    for (const status of ["400", "403", "422"]) {
      await expect(ask(status)).rejects.toMatchObject({ reason: "bad_request" });
    }
    expect((await ask("fine")).text).toBe(right);
  });

  it.each([
    ["a wrong address", { status: 404, headers: { "content-type": "text/html" }, text: "<html>no route</html>" }],
    ["an error without a code, with 200", { json: { error: "model overloaded" } }],
  ] satisfies [string, Reply][])(
    "that has answered, and now answers with %s for a while, is waited for",
    async (_, trouble) => {
      let wrong = 0;
      const { url } = await serve(() => (wrong-- > 0 ? (trouble as Reply) : completion(right)));
      const { client } = clientOf({ url, patience: 300 }, undefined, sleepersClock());
      await client.ask(question, never);
      wrong = 6;
      expect((await client.ask(question, never)).text).toBe(right);
      wrong = Number.POSITIVE_INFINITY;
      await expect(client.ask(question, never)).rejects.toThrow(/has not answered for .* s \(--judge-patience\)/);
    },
  );

  it("that is down for a minute makes everybody wait and go on", async () => {
    const { port, close } = await serve(() => completion(right));
    await close();
    servers.pop();
    // The cap is enough for three answers, not for what the vain attempts would have cost.
    const cap = { price: { prompt: 10, completion: 100 }, cap: new Cap(0.02), maxTokens: 20 };
    const clock = sleepersClock();
    let back: Promise<unknown> | undefined;
    const sleep: Clock["sleep"] = async (milliseconds, signal) => {
      await clock.sleep(milliseconds, signal);
      if (clock.time < 60_000) return;
      back ??= serve(() => completion(right), port);
      await back;
    };
    const asked = { url: `http://127.0.0.1:${port}/v1`, patience: 300, ...cap };
    const { client, said } = clientOf(asked, undefined, { now: () => clock.now(), sleep });
    const answers = Promise.all([1, 2, 3].map(() => client.ask(question, never)));
    expect((await answers).map(({ text }) => text)).toEqual([right, right, right]);
    expect(said).toEqual([
      expect.stringMatching(/the judge at .* does not answer \(.*ECONNREFUSED.*\); waiting up to 300 s/),
      expect.stringMatching(/answers again/),
    ]);
    // What never reached it was not sent.
    expect(client.usage().requests).toBe(3);
  });

  it.each([204, 304])("that answers without a body (%i) is no chat API: the judge stops at once", async (status) => {
    const { url, requests } = await serve(() => ({ status, json: {} }));
    await expect(clientOf({ url }).client.ask(question, never)).rejects.toThrow(
      `cannot be asked: ${status} an answer without a body; give the base URL of the chat API that is meant`,
    );
    expect(requests).toHaveLength(1);
  });

  it("that stays down stops all questions with one clear error", async () => {
    const { url, close } = await serve(() => completion(right));
    await close();
    servers.pop();
    const { client } = clientOf({ url, patience: 20 });
    const errors = await Promise.all([1, 2, 3].map(() => client.ask(question, never).catch((error: Error) => error)));
    for (const error of errors) {
      expect(error).toBeInstanceOf(JudgeStopped);
      expect((error as Error).message).toMatch(
        /^the judge judge at http:\/\/127\.0\.0\.1:\d+\/v1 cannot be asked: it has not answered for ([2-9]\d|\d{3,}) s \(--judge-patience\): .*ECONNREFUSED/,
      );
    }
  });

  it("is left when the user stops", async () => {
    const { url } = await serve(() => ({ hang: true }));
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error("interrupted")), 50);
    await expect(clientOf({ url }).client.ask(question, stop.signal)).rejects.toThrow("interrupted");
  });
});

describe("limits", () => {
  it("hold on a server: so many at once", async () => {
    let active = 0;
    let most = 0;
    const waiting: (() => void)[] = [];
    const { url } = await serve(async () => {
      most = Math.max(most, ++active);
      // None is answered before three are there.
      const three = new Promise<void>((resolve) => waiting.push(resolve));
      if (waiting.length === 3) for (const go of waiting.splice(0)) go();
      await three;
      await new Promise((resolve) => setTimeout(resolve, 20));
      active--;
      return completion(right);
    });
    const { client } = clientOf({ url, concurrency: 3 });
    await Promise.all(Array.from({ length: 12 }, () => client.ask(question, never)));
    expect(most).toBe(3);
  });

  it("spend no more than --judge-max-cost, and say what was spent", async () => {
    const { url, requests } = await serve(() => completion(right));
    const price = { prompt: 10, completion: 100 };
    const { client } = clientOf({ url, price, cap: new Cap(0.0105), maxTokens: 20, concurrency: 1 });
    const asked = await Promise.allSettled(Array.from({ length: 8 }, () => client.ask(question, never)));
    // 100 prompt and 20 completion tokens: $0.003 a question.
    expect(client.usage().cost).toBeCloseTo(0.009);
    expect(requests).toHaveLength(3);
    const refused = asked.find(({ status }) => status === "rejected") as PromiseRejectedResult;
    expect(refused.reason).toBeInstanceOf(JudgeStopped);
    expect(refused.reason.message).toMatch(/it has cost \$0\.0090, .* \$0\.0105 that --judge-max-cost allows/);
  });

  it("let questions wait for those under way, whose cost is not known yet", async () => {
    const { url, requests } = await serve(() => completion(right));
    const price = { prompt: 10, completion: 100 };
    // Each costs $0.003; what is reserved for an answer before the first is $0.05.
    const { client } = clientOf({ url, price, cap: new Cap(0.06), concurrency: 8 });
    const answers = await Promise.all(Array.from({ length: 12 }, () => client.ask(question, never)));
    expect(answers).toHaveLength(12);
    expect(requests).toHaveLength(12);
  });

  it("are admitted when the cap has room for as long an answer as it may be, not for the usual one", async () => {
    const { url } = await serve((_, index) => {
      const long = completion(right) as { json: { usage: object } };
      const completion_tokens = index === 0 ? 10 : 4000;
      return { json: { ...long.json, usage: { prompt_tokens: 100, completion_tokens } } };
    });
    const price = { prompt: 1, completion: 10 };
    const { client } = clientOf({ url, price, cap: new Cap(0.1), maxTokens: 4000, concurrency: 8 });
    await Promise.allSettled(Array.from({ length: 20 }, () => client.ask(question, never)));
    expect(client.usage().cost).toBeGreaterThan(0.05);
    expect(client.usage().cost).toBeLessThanOrEqual(0.1);
  });

  it("of several judges wait for each other's requests under one cap, and say what all have cost", async () => {
    const { url, requests } = await serve(() => completion(right));
    const cap = new Cap(0.06);
    const price = { prompt: 10, completion: 100 };
    const clients = ["a", "b"].map((model) => clientOf({ url, model, price, cap, concurrency: 8 }).client);
    const asked = () => clients.flatMap((client) => Array.from({ length: 5 }, () => client.ask(question, never)));
    expect(await Promise.all(asked())).toHaveLength(10);
    // Each has cost $0.003.
    const more = await Promise.allSettled(Array.from({ length: 30 }, () => clients[1]?.ask(question, never)));
    const refused = more.find(({ status }) => status === "rejected") as PromiseRejectedResult;
    expect(refused.reason.message).toMatch(/all judges together have cost \$0\.0[56]\d+, .* \$0\.06 that/);
    expect(requests.length).toBeGreaterThan(17);
  });

  it("count what the run has spent before", async () => {
    const { url, requests } = await serve(() => completion(right));
    const before = { requests: 7, prompt_tokens: 700, completion_tokens: 140, cost: 0.9999 };
    const { client } = clientOf({ url, price: { prompt: 10, completion: 100 }, cap: new Cap(1) }, before);
    await expect(client.ask(question, never)).rejects.toThrow("it has cost $0.9999");
    expect(requests).toHaveLength(0);
    expect(client.usage()).toEqual(before);
  });
});

describe("the key", () => {
  const key = "sk-very-secret-0123456789";

  it("is taken out where a server quotes it on two lines, and where it stands in an address", async () => {
    const { url } = await serve(({ path }) => ({
      status: 404,
      json: { error: { message: `Invalid URL (POST ${path}): ${key.slice(0, 9)}\n${key.slice(9)} ${key}` } },
    }));
    const { client } = clientOf({ url: `${url}?api-key=query-secret`, key: `${key.slice(0, 9)} ${key.slice(9)}` });
    const failure = await client.ask(question, never).catch((error: Error) => error.message);
    expect(failure).toContain("Invalid URL (POST /v1/chat/completions?...): [key]");
    expect(failure).not.toContain("query-secret");
  });

  it("is sent, and never told: not in errors, not in what is said, whatever the server quotes", async () => {
    const quote = (status: number): Reply => ({
      status,
      json: { error: { message: `Incorrect API key provided: ${key}`, param: "temperature" } },
    });
    const { url, requests } = await serve(({ body }, index) =>
      body.temperature !== undefined ? quote(400) : index === 1 ? completion(right) : quote(index < 4 ? 500 : 401),
    );
    const { client, said } = clientOf({ url, key, temperature: 0 });
    await client.ask(question, never);
    const error = (await client.ask(question, never).catch((caught: unknown) => caught)) as Error;
    expect(requests[0]?.headers.authorization).toBe(`Bearer ${key}`);
    expect(said).toHaveLength(2);
    const told = JSON.stringify([said, error.message, error.stack, String(error.cause ?? "")]);
    expect(told).toContain("Incorrect API key provided: [key]");
    expect(told).not.toContain(key);
  });

  it("that is missing is asked for by option and variable, at once", async () => {
    const { url, requests } = await serve(() => ({ status: 401, json: { error: { message: "who are you?" } } }));
    await expect(clientOf({ url }).client.ask(question, never)).rejects.toThrow(
      /cannot be asked: 401 who are you\?; give its key with --judge-key or HONE_JUDGE_KEY/,
    );
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  it("goes to no other server: a redirect there stops the judge at once", async () => {
    const other = await serve(() => completion(right));
    const { url, requests } = await serve(() => ({ status: 307, json: {}, headers: { location: other.url } }));
    await expect(clientOf({ url, key }).client.ask(question, never)).rejects.toThrow(
      /307 it redirects to .*, and nothing was sent there; give the base URL of the chat API that is meant as --judge-url/,
    );
    expect([requests.length, other.requests.length]).toEqual([1, 0]);
  });
});
