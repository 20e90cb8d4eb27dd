/** One conversation in each dialect, by the vendors' own clients: the same seed draws the same token ids. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { chatOf } from "../../src/chat/chat.js";
import { checkArguments } from "../../src/core/task/parameters.js";
import { type AnyTask, type Scenario, toolSchema } from "../../src/core/task/task.js";
import { ServedModel } from "../../src/serve/model.js";
import { openEndpoint } from "../../src/serve/server.js";
import { llamaCppFiles } from "../support/bundle.js";
import { withTemplate } from "../support/with-template.js";
import { mailTask } from "./mail-task.js";
import { ask, idsOfChoice, type Server, serveTiny, TINY } from "./support.js";

const task = mailTask as unknown as AnyTask;
const scenarios = (await task.scenarios({})) as Scenario[];
const tools = task.tools.map((tool) => toolSchema(tool));
const MAX_TURNS = 6;
const MAX_TOKENS = 100;
/** With it the tiny model reads what it found. */
const SEED = 13;

let server: Server;
let anthropic: Anthropic;
beforeAll(async () => {
  server = await serveTiny({ context: 2048 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
});

interface Call {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}
interface Turn {
  readonly prompt: readonly number[];
  readonly sampled: readonly number[];
  readonly calls: readonly Call[];
}
/** A conversation as a client of one dialect holds it. */
interface Talk {
  turn(seed: number): Promise<Turn>;
  result(call: Call, text: string): void;
}
type Dialect = (system: string, question: string) => Talk;

const ids = (value: unknown) => value as { prompt_token_ids: number[]; token_ids: number[] };
const extra = { return_token_ids: true };

const chat: Dialect = (system, question) => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: "system", content: system },
    { role: "user", content: question },
  ];
  return {
    turn: async (seed) => {
      const answer = await ask(server.client, { messages, tools, seed, max_tokens: MAX_TOKENS, ...extra });
      const [choice] = answer.choices;
      messages.push(choice?.message as OpenAI.ChatCompletionMessage);
      const calls = (choice?.message.tool_calls ?? []).filter((call) => call.type === "function");
      return {
        prompt: answer.prompt_token_ids as number[],
        sampled: idsOfChoice(choice),
        calls: calls.map(({ id, function: { name, arguments: args } }) => ({ id, name, args: JSON.parse(args) })),
      };
    },
    result: ({ id }, content) => void messages.push({ role: "tool", tool_call_id: id, content }),
  };
};

const flat = tools.map(({ function: { name, description, parameters } }) => ({
  type: "function" as const,
  name,
  description,
  parameters,
  strict: false,
}));

/** @param stored whether earlier items are named by the response before, in place of being sent again */
const responses =
  (stream: boolean, stored: boolean): Dialect =>
  (instructions, question) => {
    let input: OpenAI.Responses.ResponseInput = [{ role: "user", content: question }];
    let previous: string | undefined;
    return {
      turn: async (seed) => {
        const body = { model: "tiny", instructions, input, tools: flat, store: stored, ...extra };
        const more = { seed, max_output_tokens: MAX_TOKENS, previous_response_id: previous };
        const asked = { ...body, ...more } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
        let answer: OpenAI.Responses.Response;
        if (stream) answer = await server.client.responses.stream(asked as object).finalResponse();
        else answer = await server.client.responses.create(asked);
        if (stored) {
          previous = answer.id;
          input = [];
        } else input.push(...(answer.output as OpenAI.Responses.ResponseInput));
        const { prompt_token_ids: prompt, token_ids: sampled } = ids(answer);
        const calls = answer.output.filter((item) => item.type === "function_call");
        return {
          prompt,
          sampled,
          calls: calls.map(({ call_id: id, name, arguments: args }) => ({ id, name, args: JSON.parse(args) })),
        };
      },
      result: ({ id }, output) => void input.push({ type: "function_call_output", call_id: id, output }),
    };
  };

const messages =
  (stream: boolean): Dialect =>
  (system, question) => {
    const history: Anthropic.MessageParam[] = [{ role: "user", content: question }];
    return {
      turn: async (seed) => {
        const about = { model: "tiny", max_tokens: MAX_TOKENS, system, messages: history, seed, ...extra };
        const asked = {
          ...about,
          tools: tools.map(({ function: { name, description, parameters } }) => ({
            name,
            description,
            input_schema: parameters as Anthropic.Tool.InputSchema,
          })),
        };
        let found: unknown;
        let answer: Anthropic.Message;
        if (stream) {
          const events = anthropic.messages.stream(asked);
          events.on("streamEvent", (event) => {
            if (event.type === "message_delta") found = event;
          });
          answer = await events.finalMessage();
        } else found = answer = await anthropic.messages.create(asked);
        history.push({ role: "assistant", content: answer.content }, { role: "user", content: [] });
        const { prompt_token_ids: prompt, token_ids: sampled } = ids(found);
        const calls = answer.content.filter((block) => block.type === "tool_use");
        expect(answer.stop_reason === "tool_use").toBe(calls.length > 0);
        return { prompt, sampled, calls: calls.map(({ id, name, input }) => ({ id, name, args: input })) };
      },
      result: ({ id }, content) => {
        const results = history.at(-1)?.content as Anthropic.ContentBlockParam[];
        results.push({ type: "tool_result", tool_use_id: id, content });
      },
    };
  };

async function play(dialect: Dialect, scenario: Scenario, seed: number) {
  const [system, user] = task.prompt(scenario, { maxTurns: MAX_TURNS }) as { content: string }[];
  const talk = dialect(system?.content as string, user?.content as string);
  const turns: Pick<Turn, "prompt" | "sampled">[] = [];
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const { prompt, sampled, calls } = await talk.turn(seed);
    turns.push({ prompt, sampled });
    for (const call of calls) {
      const tool = task.tools.find(({ name }) => name === call.name);
      const checked = tool && checkArguments(tool.parameters, call.args as Record<string, unknown>);
      if (!tool || tool.final || !checked || "problem" in checked) return turns;
      const context = { scenario, env: undefined, signal: new AbortController().signal };
      talk.result(call, JSON.stringify(await tool.execute(checked.args, context)));
    }
    if (calls.length === 0) break;
  }
  return turns;
}

test("chats, responses and messages draw the same token ids, streamed or not, sent again or stored", async () => {
  const lengths: number[] = [];
  for (const scenario of scenarios) {
    const expected = await play(chat, scenario, SEED);
    lengths.push(expected.length);
    const others = { responses: responses(false, false), messages: messages(false) };
    const streamed = { responses: responses(true, false), messages: messages(true), stored: responses(false, true) };
    for (const dialect of [...Object.values(others), ...Object.values(streamed)]) {
      expect(await play(dialect, scenario, SEED)).toEqual(expected);
    }
  }
  expect(Math.max(...lengths)).toBeGreaterThan(2);
});

const post = async (path: string, body: object) => {
  const answer = await fetch(new URL(path, server.url), { method: "POST", body: JSON.stringify(body) });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
};

describe("/v1/responses", () => {
  const say = { model: "tiny", input: "Hello", max_output_tokens: 8 };

  test("items are named by their ids where they are stored, and only there", async () => {
    const first = (await post("/v1/responses", say)).body as unknown as OpenAI.Responses.Response;
    const reference = { type: "item_reference", id: first.output[0]?.id };
    const named = { ...say, input: [{ role: "user", content: "Hello" }, reference, { role: "user", content: "So?" }] };
    const sent = { ...named, input: [named.input[0], first.output[0], named.input[2]] };
    const [byName, again] = await Promise.all([post("/v1/responses", named), post("/v1/responses", sent)]);
    expect(byName.body.hone).toMatchObject({ continued: true });
    expect(byName.body.usage).toMatchObject({
      input_tokens: (again.body.usage as { input_tokens: number }).input_tokens,
    });
    const secret = (await post("/v1/responses", { ...say, store: false })).body as unknown as typeof first;
    const lost = { ...say, previous_response_id: secret.id };
    expect(await post("/v1/responses", lost)).toMatchObject({
      status: 400,
      body: { error: { code: "previous_response_not_found", param: "previous_response_id" } },
    });
    expect((await post("/v1/responses", { ...say, input: [{ id: "msg-none" }] })).body).toMatchObject({
      error: { code: "item_not_found" },
    });
  });

  test("a response that is cut says so, and formats are enforced", async () => {
    const cut = await server.client.responses.create({ ...say, max_output_tokens: 1 });
    expect([cut.status, cut.incomplete_details]).toEqual(["incomplete", { reason: "max_output_tokens" }]);
    const schema = {
      type: "object",
      properties: { yes: { type: "boolean" } },
      required: ["yes"],
      additionalProperties: false,
    };
    const text = { format: { type: "json_schema" as const, name: "answer", schema, strict: true } };
    const formed = await server.client.responses.create({ ...say, max_output_tokens: 60, text });
    expect(JSON.parse(formed.output_text)).toEqual({ yes: expect.any(Boolean) });
  });

  test("what a platform alone has is refused by its name", async () => {
    const cases: [object, string][] = [
      [{ tools: [{ type: "web_search" }] }, "tools.0.type"],
      [{ background: true }, "background"],
      [{ conversation: "conv_1" }, "conversation"],
      [{ truncation: "auto" }, "truncation"],
      [{ modalities: ["audio"] }, "modalities"],
      [{ input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] }, "input.0"],
    ];
    for (const [more, param] of cases) {
      const { status, body } = await post("/v1/responses", { ...say, ...more });
      expect([status, (body.error as { param: string }).param]).toEqual([400, expect.stringContaining(param)]);
    }
  });

  test("an error within a stream reaches the client as one", async () => {
    const complete = server.model.recorder.add.bind(server.model.recorder);
    server.model.recorder.add = () => {
      throw new Error("no room");
    };
    try {
      const stream = await server.client.responses.create({ ...say, stream: true });
      await expect(async () => {
        for await (const _ of stream);
      }).rejects.toThrow("no room");
    } finally {
      server.model.recorder.add = complete;
    }
  });
});

describe("/v1/messages", () => {
  const say: Anthropic.MessageCreateParamsNonStreaming = {
    model: "tiny",
    max_tokens: 8,
    messages: [{ role: "user", content: "Hello" }],
  };

  test("errors are Anthropic's: its client throws its own classes", async () => {
    await expect(anthropic.messages.create({ ...say, model: "other" })).rejects.toThrow(Anthropic.NotFoundError);
    const prefilled = { ...say, messages: [...say.messages, { role: "assistant" as const, content: "It" }] };
    await expect(anthropic.messages.create(prefilled)).rejects.toThrow(/given beginning/);
    const silent = [...say.messages, { role: "assistant", content: "It" }, { role: "user", content: [] }];
    const { body: empty } = await post("/v1/messages", { ...say, messages: silent });
    expect((empty.error as { message: string }).message).toContain("'messages.2.content'");
    const { body } = await post("/v1/messages", { ...say, container: "c" });
    expect(body).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
  });

  test("the client's tool runner, which asks for a thread, goes on without one", async () => {
    const input_schema = { type: "object" as const, properties: {} };
    const tool = {
      type: "custom" as const,
      name: "look",
      input_schema,
      parse: (input: unknown) => input,
      run: () => "",
    };
    const runner = anthropic.beta.messages.toolRunner({ ...say, messages: [...say.messages], tools: [tool] });
    expect((await runner).role).toBe("assistant");
  });

  test("stop sequences, limits and tokens before a turn are told", async () => {
    const cut = await anthropic.messages.create({ ...say, max_tokens: 1 });
    expect(cut.stop_reason).toBe("max_tokens");
    const long = { ...say, max_tokens: 200, seed: 3, return_token_ids: true };
    const free = await anthropic.messages.create(long);
    const text = free.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const stop = text.slice(2, 5);
    const stopped = await anthropic.messages.create({ ...long, stop_sequences: ["\u0000", stop] });
    expect([stopped.stop_reason, stopped.stop_sequence]).toEqual(["stop_sequence", stop]);
    const { messages: history, model } = say;
    const counted = await anthropic.messages.countTokens({ model, messages: history });
    expect(counted.input_tokens).toBe(ids(free).prompt_token_ids.length);
  });

  test("a key is taken from Anthropic's header", async () => {
    const locked = await serveTiny({ apiKey: "secret" });
    const client = (apiKey: string) => new Anthropic({ baseURL: locked.url, apiKey, maxRetries: 0 });
    expect((await client("secret").messages.create(say)).role).toBe("assistant");
    await expect(client("other").messages.create(say)).rejects.toThrow(Anthropic.AuthenticationError);
    await locked.close();
  });
});

describe("/tokenize and /detokenize", () => {
  test("tokens are those that a chat has, and become its text again", async () => {
    const history = [{ role: "user" as const, content: "Hello <|im_end|>" }];
    const answer = await ask(server.client, { messages: history, tools, max_tokens: 1, ...extra });
    const { body } = await post("/tokenize", { model: "tiny", messages: history, tools, return_token_strs: true });
    expect(body.tokens).toEqual(answer.prompt_token_ids);
    expect([body.count, body.max_model_len]).toEqual([answer.prompt_token_ids?.length, 2048]);
    const back = await post("/detokenize", { tokens: body.tokens });
    expect(back.body.prompt).toBe((body.token_strs as string[]).join(""));
    const plain = await post("/tokenize", { prompt: "Hello" });
    expect(plain.body.tokens).toEqual([...server.engine.tokenize("Hello", { special: true })]);
    expect((await post("/detokenize", { tokens: [10 ** 9] })).status).toBe(400);
  });
});

test("a client of Ollama's API is told what to use", async () => {
  const { status, body } = await post("/api/chat", { model: "tiny", messages: [{ role: "user", content: "Hello" }] });
  expect([status, body.error]).toMatchObject([
    404,
    { message: expect.stringMatching(/OpenAI's form.*export --to ollama/) },
  ]);
});

test("there are no embeddings, in one line", async () => {
  const refused = server.client.embeddings.create({ model: "tiny", input: TINY });
  await expect(refused).rejects.toThrow(OpenAI.NotFoundError);
  await expect(refused).rejects.toThrow("There are no embeddings: the models here write text.");
});

describe("chat_template_kwargs", () => {
  /** The tiny model behind Qwen 3's template, which has a variable of its own. */
  const thinker = async () => {
    const engine = withTemplate(
      server.engine,
      readFileSync(join(llamaCppFiles(), "models/templates/Qwen-Qwen3-0.6B.jinja"), "utf8"),
    );
    const model = new ServedModel(["thinker"], engine, chatOf(engine));
    const endpoint = await openEndpoint({ port: 0, apiKey: undefined, models: [model] });
    const asked = async (path: string, body: object) => {
      const answer = await fetch(new URL(path, endpoint.url), { method: "POST", body: JSON.stringify(body) });
      return (await answer.json()) as Record<string, unknown>;
    };
    return { model, asked, close: () => endpoint.close(0) };
  };
  const closed = "<think>\n\n</think>\n\n";

  test("set the template's variables in every dialect, and unknown ones are refused", async () => {
    const { model, asked, close } = await thinker();
    const messages = [{ role: "user", content: "Hello" }];
    const common = { model: "thinker", ...extra, max_tokens: 2 };
    const promptOf = ({ prompt_token_ids: prompt }: Record<string, unknown>) =>
      model.engine.detokenize(prompt as number[], { special: true });
    const variants: [string, object][] = [
      ["/v1/chat/completions", { ...common, messages }],
      ["/v1/messages", { ...common, messages }],
      ["/v1/responses", { ...common, max_tokens: undefined, max_output_tokens: 2, input: "Hello" }],
    ];
    for (const [path, body] of variants) {
      const quiet = { ...body, chat_template_kwargs: { enable_thinking: false } };
      const prompt = promptOf(await asked(path, body));
      expect(promptOf(await asked(path, quiet))).toBe(prompt + closed);
    }
    const unknown = await asked("/v1/chat/completions", { ...common, messages, chat_template_kwargs: { nope: 1 } });
    expect(unknown.error).toMatchObject({ param: "chat_template_kwargs", code: "unsupported_value" });
    await close();
  });

  test("conversations with other values are others", async () => {
    const { asked, close } = await thinker();
    const say = { model: "thinker", messages: [{ role: "user", content: "Hello" }], max_tokens: 2 };
    const ask = (messages: object[], thinking: boolean) =>
      asked("/v1/chat/completions", { ...say, messages, chat_template_kwargs: { enable_thinking: thinking } });
    const first = (await ask(say.messages, false)) as { choices?: { message: object }[] };
    const next = [...say.messages, first.choices?.[0]?.message as object, { role: "user", content: "So?" }];
    expect((await ask(next, false)).hone).toMatchObject({ continued: true });
    expect((await ask(next, true)).hone).toMatchObject({ continued: false });
    await close();
  });
});
