/** `createHone` with the AI SDK itself: in this process, and through the endpoint of `hone serve`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { APICallError, NoSuchModelError } from "@ai-sdk/provider";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { optionsOf, withDefaults } from "../../src/core/config/config.js";
import { openSubject, type Subject } from "../../src/hone/play/subject.js";
import { createHone, type HoneProvider } from "../../src/hone/provider.js";
import { ServedModel } from "../../src/serve/model.js";
import { type Endpoint, openEndpoint } from "../../src/serve/server.js";
import { writeFalcon } from "../support/falcon-run.js";
import { freePort } from "../support/free-port.js";

const home = mkdtempSync(join(tmpdir(), "hone-provider-"));
const machine = { gpu: "off", threads: 1, context: 512, concurrency: 2, home } as const;
let local: HoneProvider;
let remote: HoneProvider;
let subject: Subject;
let endpoint: Endpoint;

beforeAll(async () => {
  await writeFalcon(home);
  local = createHone({ run: "falcon", ...machine });
  const given = { ...machine, subject: "falcon" };
  subject = await openSubject(withDefaults([...optionsOf("serve"), ...optionsOf("chat")], given), {
    given,
    checkpoints: ["3"],
    withBase: true,
    sequences: 2,
    log: () => undefined,
    signal: new AbortController().signal,
  });
  const models = subject.models.map(({ names: [name], engine, chat }) => {
    return new ServedModel([name === "base" ? name : (subject.run as string)], engine, chat);
  });
  endpoint = await openEndpoint({ port: 0, apiKey: "k", models });
  remote = createHone({ url: endpoint.url, apiKey: "k" });
});
afterAll(async () => {
  await local.close();
  await endpoint.close(0);
  await subject.close();
  rmSync(home, { recursive: true, force: true });
});

const asked = { prompt: "Find the mail about Falcon", maxOutputTokens: 16, seed: 1, maxRetries: 0 } as const;

describe.each([
  ["in this process", () => local],
  ["through the endpoint", () => remote],
])("%s", (_, hone) => {
  test("a run's adapter and its base are models by their names", async () => {
    const said = async (name: string) => {
      const wild = [1, 2, 3, 4].map((seed) => generateText({ ...asked, seed, temperature: 3, model: hone()(name) }));
      return (await Promise.all(wild)).map(({ text }) => text);
    };
    expect(await said("falcon")).not.toEqual(await said("base"));
    const { usage, finishReason, response, providerMetadata } = await generateText({
      ...asked,
      model: hone()("falcon"),
      maxOutputTokens: 2,
    });
    expect(usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: 2 });
    expect([finishReason, response.modelId]).toEqual(["length", "falcon"]);
    expect(providerMetadata?.hone).toEqual({ continued: false, historyRewritten: 0, seed: 1 });
  });

  test("a stream says the same", async () => {
    const whole = await generateText({ ...asked, model: hone()("falcon") });
    const { textStream, usage, finishReason } = streamText({ ...asked, model: hone()("falcon") });
    let text = "";
    for await (const piece of textStream) text += piece;
    expect(text.trim()).toBe(whole.text);
    expect([(await usage).outputTokens, await finishReason]).toEqual([whole.usage.outputTokens, whole.finishReason]);
  });

  test("a required call comes, with arguments by the tool's schema, and the next step goes on from its tokens", async () => {
    const seen: unknown[] = [];
    const { steps } = await generateText({
      ...asked,
      model: hone().languageModel("base"),
      maxOutputTokens: 120,
      tools: {
        search: tool({
          inputSchema: z.strictObject({ kind: z.enum(["mail", "note"]) }),
          strict: true,
          execute: (input) => {
            seen.push(input);
            return "nothing";
          },
        }),
      },
      toolChoice: "required",
      stopWhen: stepCountIs(2),
    });
    expect(seen.length).toBeGreaterThan(0);
    for (const input of seen) expect(["mail", "note"]).toContain((input as { kind: string }).kind);
    expect(steps[1]?.providerMetadata?.hone).toMatchObject({ continued: true });
    // All but the last sampled token: nothing had needed its KV.
    const before = (steps[0]?.usage.totalTokens ?? 0) - 1;
    expect(steps[1]?.usage.inputTokenDetails.cacheReadTokens).toBe(before);
  });

  test("an answer has the form that is asked for, and what no grammar expresses is a warning", async () => {
    const schema = z.object({ kind: z.enum(["mail", "note"]), known: z.boolean() });
    const { output, warnings } = await generateText({
      ...asked,
      model: hone()("falcon"),
      maxOutputTokens: 60,
      output: Output.object({ schema }),
    });
    expect(schema.safeParse(output).success).toBe(true);
    expect(warnings).toEqual([]);
    const model = hone()("falcon");
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hi" }] }];
    const unique = { type: "array" as const, uniqueItems: true, items: { type: "boolean" as const }, maxItems: 2 };
    const left = await model.doGenerate({ prompt, responseFormat: { type: "json", schema: unique } });
    expect(left.warnings).toEqual([
      { type: "unsupported", feature: "a part of a schema", details: expect.stringContaining("uniqueItems") },
    ]);
  });

  test("an abort ends the turn as the SDK expects", async () => {
    const stop = new AbortController();
    const { textStream } = streamText({
      ...asked,
      model: hone()("base"),
      maxOutputTokens: 400,
      abortSignal: stop.signal,
    });
    let pieces = 0;
    for await (const _piece of textStream) if (++pieces === 1) stop.abort();
    expect(stop.signal.aborted).toBe(true);
    const gone = AbortSignal.abort();
    const late = generateText({ ...asked, model: hone()("base"), abortSignal: gone });
    await expect(late).rejects.toMatchObject({ name: "AbortError" });
  });

  test("a stream that nobody reads on ends its turn", async () => {
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hi" }] }];
    const asked = { prompt, maxOutputTokens: 400, temperature: 3, seed: 1 };
    const { stream } = await hone()("base").doStream(asked);
    const reader = stream.getReader();
    const parts = [await reader.read(), await reader.read(), await reader.read()];
    expect(parts.map(({ value }) => value?.type)).toEqual(["stream-start", "response-metadata", "text-start"]);
    await reader.cancel();
    expect(await reader.read()).toEqual({ done: true });
  });

  test("what is refused names the option", async () => {
    const frequent = generateText({ ...asked, model: hone()("base"), frequencyPenalty: 1 });
    await expect(frequent).rejects.toThrow(/^Invalid value for 'frequency_penalty': only 0 is supported/);
    await expect(frequent).rejects.toBeInstanceOf(APICallError);
    const long = generateText({ ...asked, model: hone()("base"), prompt: "mail ".repeat(2000) });
    await expect(long).rejects.toMatchObject({ statusCode: 400, isRetryable: false });
    expect(() => hone().embeddingModel("base")).toThrow(NoSuchModelError);
  });
});

describe("names and options", () => {
  test("the same seed draws the same text in this process and through the endpoint", async () => {
    const texts = await Promise.all([local, remote].map((hone) => generateText({ ...asked, model: hone("falcon") })));
    expect(texts[0]?.text).toBe(texts[1]?.text);
  });

  test("checkpoints that are given go by these names", async () => {
    const hone = createHone({ run: "mail/falcon", checkpoints: ["3"], ...machine });
    const { text } = await generateText({ ...asked, model: hone("3") });
    expect(text).toBe((await generateText({ ...asked, model: local("falcon") })).text);
    await expect(generateText({ ...asked, model: hone("base") })).rejects.toThrow(
      "there is no model base here; there are 3, falcon (the option checkpoints)",
    );
    await hone.close();
    await expect(generateText({ ...asked, model: hone("3") })).rejects.toThrow("the provider was closed");
  });

  test("a model that a server does not have is an error of the SDK", async () => {
    await expect(generateText({ ...asked, model: remote("other") })).rejects.toThrow(
      "The model 'other' does not exist; there are falcon, base.",
    );
  });

  test("a server that is not there is worth another try, and a wrong key is not", async () => {
    const nobody = createHone({ url: `http://127.0.0.1:${await freePort()}/v1` });
    await expect(generateText({ ...asked, model: nobody("base") })).rejects.toMatchObject({ isRetryable: true });
    const stranger = createHone({ url: endpoint.url, apiKey: "other" });
    await expect(generateText({ ...asked, model: stranger("base") })).rejects.toMatchObject({
      isRetryable: false,
      statusCode: 401,
    });
  });

  test("wrong options are one line", async () => {
    expect(() => createHone({ url: "nowhere" })).toThrow("url: nowhere is no URL");
    const typo = createHone({ run: "falcon", ...machine, contxt: 5 } as Parameters<typeof createHone>[0]);
    await expect(generateText({ ...asked, model: typo("base") })).rejects.toThrow(
      "options: contxt is not an option; did you mean context?",
    );
    const none = createHone({ run: "eagle", ...machine });
    await expect(generateText({ ...asked, model: none("base") })).rejects.toThrow(/^eagle is neither a run in/);
  });
});
