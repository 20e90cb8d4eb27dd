/** An agent that asks the frozen base beside the trained model, as its scenario's question says; what was answered is its output. */
import { type AgentContext, type BaseModel, defineTask, type Scenario, withBase } from "@hone-rl/hone";

type Context = AgentContext<Scenario> & { readonly base: BaseModel };

const MESSAGES = [
  { role: "system", content: "You are an email search agent. Use the tools to search and read emails." },
  { role: "user", content: "When is the deadline of the project Falcon?" },
];

/** What is read of an answer. */
interface Answered {
  readonly choices: readonly {
    readonly message: { readonly content: string };
    readonly finish_reason: string;
    readonly token_ids: readonly number[];
    readonly hone: unknown;
  }[];
  readonly prompt_token_ids: readonly number[];
  readonly usage: { readonly completion_tokens: number };
  readonly error: { readonly code: string; readonly message: string };
}

async function post(url: string, key: string, body: object) {
  const response = await fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...((await response.json()) as Answered) };
}

const ask = (url: string, key: string, more: object = {}) =>
  post(`${url}/chat/completions`, key, { model: "any", messages: MESSAGES, max_tokens: 24, ...more });

/** One turn after the other, each with what was said before; so few tokens are given that they are always one batch. */
async function converse(url: string, key: string, turns: number) {
  const messages: object[] = [{ role: "user", content: "When?" }];
  for (let turn = 0; turn < turns; turn++) {
    const { choices } = await ask(url, key, { messages });
    messages.push({ ...choices[0]?.message }, { role: "user", content: "Go on." });
  }
}

const say = (logger: Context["logger"], what: unknown) => logger.info(JSON.stringify(what));

const moods: Record<string, (context: Context) => unknown> = {
  async "asks both"({ baseUrl, apiKey, base, logger }) {
    const messages = [{ role: "user", content: "The meeting with the new supplier was moved to" }];
    const { choices, prompt_token_ids } = await ask(baseUrl, base.apiKey, {
      messages,
      temperature: 0,
      return_token_ids: true,
    });
    say(logger, { prompt: prompt_token_ids, tokens: choices[0]?.token_ids });
    await ask(baseUrl, apiKey);
  },
  async "asks the model alone"({ baseUrl, apiKey }) {
    await converse(baseUrl, apiKey, 3);
  },
  async "asks the base meanwhile"({ baseUrl, apiKey, base }) {
    const others = Array.from({ length: 2 }, () => converse(baseUrl, base.apiKey, 3));
    await Promise.all([converse(baseUrl, apiKey, 3), ...others]);
  },
  async "asks for more than there is"({ baseUrl, apiKey, base, logger }) {
    const long = await ask(baseUrl, base.apiKey, { max_tokens: 500, top_p: 0.9, temperature: 1.5, seed: 3 });
    const text = await post(`${baseUrl}/completions`, base.apiKey, {
      model: "any",
      prompt: "The deadline",
      max_tokens: 5,
    });
    const full = await ask(baseUrl, base.apiKey, { messages: [{ role: "user", content: "word ".repeat(600) }] });
    for (let call = 3; call <= 12; call++) await ask(baseUrl, base.apiKey, { max_tokens: 1 });
    const beyond = await ask(baseUrl, base.apiKey);
    const usage = [long, text].map(({ usage }) => usage.completion_tokens);
    const errors = [full, beyond].map(({ status, error }) => [status, error.code, error.message]);
    say(logger, { usage, finish: long.choices[0]?.finish_reason, errors });
    await ask(baseUrl, apiKey);
  },
  async "asks for a form"({ baseUrl, apiKey, base, logger }) {
    const schema = {
      type: "object",
      properties: { score: { enum: [0, 1] } },
      required: ["score"],
      additionalProperties: false,
    };
    const format = { type: "json_schema", json_schema: { name: "grade", schema, strict: true } };
    const { choices } = await ask(baseUrl, base.apiKey, { response_format: format });
    say(logger, JSON.parse(choices[0]?.message.content ?? ""));
    await ask(baseUrl, apiKey);
  },
  async "asks for a form of its own"({ baseUrl, apiKey, base, logger }) {
    const { choices } = await ask(baseUrl, base.apiKey, { response_format: { type: "json_object" } });
    say(logger, choices[0]?.hone);
    await ask(baseUrl, apiKey);
  },
  async "asks by the AI SDK, and by a program"({ base, model, run, logger }) {
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hello." }] }];
    const { usage, warnings } = await base.model.doGenerate({ prompt, maxOutputTokens: 7, topP: 0.5, seed: 1 });
    const program = `
      const { OPENAI_BASE_URL: url, HONE_BASE_API_KEY: key } = process.env;
      const body = { model: "any", messages: [{ role: "user", content: "Hello." }], max_tokens: 3 };
      const headers = { authorization: "Bearer " + key, "content-type": "application/json" };
      fetch(url + "/chat/completions", { method: "POST", headers, body: JSON.stringify(body) })
        .then((answer) => answer.json())
        .then(({ model, usage }) => console.log(model, usage.completion_tokens));`;
    const { stdout } = await run(process.execPath, ["-e", program]);
    say(logger, { sampled: usage.outputTokens.total, warnings, stdout });
    await model.doGenerate({ prompt, maxOutputTokens: 5 });
  },
  async "fails at the base"({ baseUrl, apiKey, base }) {
    await ask(baseUrl, apiKey, { max_tokens: 1 });
    const { error } = await ask(baseUrl, base.apiKey, { messages: [] });
    throw new Error(`the grader failed: ${error.message}`);
  },
};

export default defineTask({
  name: "base",
  scenarios: () => [{ id: "s", split: "train" as const, question: "asks both" }],
  rollout: withBase({ calls: 12, maxTokens: 20, context: 512, atOnce: 2 }, async (context) => {
    await moods[context.scenario.question]?.(context as Context);
    return context.index;
  }),
});
