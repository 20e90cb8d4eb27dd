/** Agents that behave as their scenario's question says. */
import { setTimeout as wait } from "node:timers/promises";
import { type AgentContext, defineTask, type Scenario } from "@hone-rl/hone";
import { type APICallError, generateObject, generateText, jsonSchema, type ModelMessage, streamText } from "ai";

type Context = AgentContext<Scenario>;
type Mood = (context: Context) => unknown;

const ask = (
  { model }: Pick<Context, "model">,
  messages: ModelMessage[],
  more: Partial<Parameters<typeof generateText>[0]> = {},
) =>
  generateText({ model, messages, maxOutputTokens: 12, maxRetries: 0, ...more } as Parameters<typeof generateText>[0]);

const user = (content: string): ModelMessage => ({ role: "user", content });

interface Body {
  readonly error?: { readonly code: string };
  readonly choices?: readonly { readonly hone?: object }[];
  readonly hone?: { readonly not_enforced?: readonly string[] };
}

async function post(
  { baseUrl, apiKey }: Pick<Context, "baseUrl" | "apiKey">,
  more: object = {},
  route = "chat/completions",
) {
  const response = await fetch(`${baseUrl}/${route}`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "any", messages: [user("Hello")], max_tokens: 4, ...more }),
  });
  return { status: response.status, body: (await response.json()) as Body };
}

/** Of a rollout that has ended, for another that comes after it. */
let before: Context | undefined;

/** What was seen goes into the rollout's output, where the test reads it. */
const tell = (seen: unknown) => console.log(`\nSEEN ${JSON.stringify(seen)}`);

const moods: Record<string, Mood> = {
  async tree(context) {
    const first = await ask(context, [user("Find the mail about Falcon")]);
    const trunk = [user("Find the mail about Falcon"), ...first.response.messages];
    await ask(context, [...trunk, user("Left?")]);
    await ask(context, [...trunk, user("Right?")]);
    // A sub-agent, and the same again and again.
    for (let time = 0; time < 4; time++) await ask(context, [user("Summarise")]);
    // History that was written otherwise than it was sampled.
    await ask(context, [
      user("Find the mail about Falcon"),
      { role: "assistant", content: "I have found it" },
      user("So?"),
    ]);
    return 1;
  },
  throws() {
    console.log("I look for the mail");
    console.error("and do not find it");
    throw new Error("no such mail");
  },
  async "throws later"(context) {
    await ask(context, [user("Hello")]);
    setTimeout(() => {
      throw new Error("in a timer");
    }, 1);
    await wait(20_000, undefined, { signal: context.signal });
    return 1;
  },
  async rejects(context) {
    await ask(context, [user("Hello")]);
    void Promise.reject(new Error("awaited by nobody"));
    await wait(20_000, undefined, { signal: context.signal });
    return 1;
  },
  async exits(context) {
    await ask(context, [user("Hello")]);
    process.exit(3);
  },
  async "is no number"(context) {
    await ask(context, [user("Hello")]);
    return Number.NaN;
  },
  "asks nothing": () => 1,
  async "goes on too long"(context) {
    for (;;) await ask(context, [user("Hello")]);
  },
  async "asks too much at once"(context) {
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hello" }] }];
    const asked = Array.from({ length: 1000 }, () =>
      context.model.doGenerate({ prompt, maxOutputTokens: 2 }).then(
        () => 200,
        (error: APICallError) => error.statusCode ?? 0,
      ),
    );
    const counts: Record<number, number> = {};
    for (const status of await Promise.all(asked)) counts[status] = (counts[status] ?? 0) + 1;
    tell(counts);
    return 1;
  },
  async "is first"(context) {
    await ask(context, [user("Hello")]);
    before = context;
    return 1;
  },
  async "uses other keys"(context) {
    while (!before) await wait(10);
    const ended = before;
    while ((await post(ended)).status === 200) await wait(10);
    const inProcess = await ask(ended, [user("Hello")]).catch((error: Error) => error.message);
    const { apiKey, baseUrl } = context;
    const forged = `${apiKey.slice(0, -1)}${apiKey.endsWith("0") ? "1" : "0"}`;
    const answers = [
      await post(ended),
      await post({ baseUrl, apiKey: forged }),
      await post({ baseUrl, apiKey: "hone" }),
    ];
    tell([inProcess, ...answers.map(({ status, body }) => [status, body.error?.code])]);
    await ask(context, [user("Hello")]);
    return 1;
  },
  async "asks for options"(context) {
    const statuses: Record<string, unknown> = {};
    const strict = { type: "json_schema", json_schema: { name: "a", strict: true, schema: { type: "object" } } };
    const loose = { type: "json_schema", json_schema: { name: "a", schema: { type: "object" } } };
    const refused = [{ top_p: 0.5 }, { top_k: 3 }, { min_p: 0.1 }, { seed: 1 }, { presence_penalty: 1 }];
    for (const option of refused) statuses[Object.keys(option)[0] as string] = (await post(context, option)).status;
    statuses.completions = (await post(context, { messages: undefined, prompt: "Hello" }, "completions")).status;
    statuses.temperature = (await post(context, { temperature: 0 })).status;
    for (const [name, response_format] of Object.entries({ strict, loose })) {
      const { status, body } = await post(context, { response_format });
      statuses[name] = [status, body.choices?.[0]?.hone, body.hone?.not_enforced];
    }
    const look = {
      type: "function",
      function: { name: "look", strict: true, parameters: { type: "object", properties: {} } },
    };
    const calling = { tools: [look], tool_choice: "required", parallel_tool_calls: false };
    const { status, body } = await post(context, calling);
    statuses.calls = [status, body.choices?.[0]?.hone, body.hone?.not_enforced];
    const sdk = async (more: object) =>
      (await ask(context, [user("Hello")], more).catch((error: Error) => error)) as object;
    const schema = jsonSchema({ type: "object" });
    statuses.topP = ((await sdk({ topP: 0.5 })) as Error).name;
    const tools = { look: { inputSchema: jsonSchema({ type: "object", properties: {} }), strict: true } };
    const free = (await sdk({ tools })) as { warnings: object; providerMetadata: { hone: object } };
    statuses.strictTools = [free.warnings, free.providerMetadata.hone];
    // The SDK itself holds the model to it.
    statuses.toolChoice = ((await sdk({ toolChoice: "required", tools })) as Error).name;
    statuses.warnings = ((await sdk({ temperature: 0 })) as { warnings: object }).warnings;
    const object = await generateObject({
      model: context.model,
      schema,
      prompt: "Hello",
      maxRetries: 0,
      maxOutputTokens: 4,
    }).catch((error: Error) => error);
    statuses.object = (object as Error).name;
    tell(statuses);
    return 1;
  },
  async "goes away"(context) {
    const gone = new AbortController();
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hello" }] }];
    const asked = context.model.doGenerate({ prompt, maxOutputTokens: 90, abortSignal: gone.signal });
    gone.abort();
    const first = await asked.then(
      () => "answered",
      (error: Error) => error.name,
    );
    const { textStream, finishReason, usage } = streamText({
      model: context.model,
      prompt: "Hello",
      maxOutputTokens: 5,
    });
    let text = "";
    for await (const part of textStream) text += part;
    tell([first, text.length > 0, await finishReason, (await usage).outputTokens]);
    return 1;
  },
  async "runs programs"(context) {
    const script = `echo "$OPENAI_BASE_URL" | cut -c1-17; sleep 1000 & echo $!; cat`;
    const { stdout } = await context.run("sh", ["-c", script], { input: "given" });
    tell(stdout.split("\n"));
    const failed = await context
      .run("sh", ["-c", "echo out; echo err >&2; exit 3"])
      .catch((error: Error) => error.message);
    tell([failed, await context.run("no-such-program").catch((error: Error) => error.message)]);
    await ask(context, [user("Hello")]);
    return { reward: 0.5, success: true, parts: { half: 0.5 } };
  },
  async blocks(context) {
    await ask(context, [user("Hello")]);
    for (;;);
  },
  async hangs(context) {
    await ask(context, [user("Hello")]);
    console.log("waiting for nothing");
    await new Promise(() => undefined);
  },
  async "heeds its signal"(context) {
    await ask(context, [user("Hello")]);
    await wait(60_000, undefined, { signal: context.signal });
    return 1;
  },
  async "behaves well"(context) {
    await ask(context, [user("Hello")]);
    return 1;
  },
};

export default defineTask<Scenario>({
  name: "moods",
  scenarios: () => [],
  rollout: (context) => moods[context.scenario.question]?.(context as Context) as number,
});
