/** Agents that end with an error, as their scenario's question says: some for a mistake of the model, some for their own. */
import { type AgentContext, defineTask, type Scenario } from "@hone-rl/hone";
import { generateObject, generateText, jsonSchema, NoSuchToolError } from "ai";

type Context = AgentContext<Scenario>;

interface Message {
  readonly content: string | null;
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
}

const tool = (name: string, properties: object = {}) => ({
  type: "function",
  function: { name, description: "Search the mails.", parameters: { type: "object", properties } },
});

async function ask({ baseUrl, apiKey }: Pick<Context, "baseUrl" | "apiKey">, more: object = {}): Promise<Message> {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "any",
      messages: [
        { role: "system", content: "You are an email search agent. Use the tools to search and read emails." },
        { role: "user", content: "When is the deadline of the project Falcon?" },
      ],
      max_tokens: 60,
      ...more,
    }),
  });
  if (!response.ok) throw new Error(`the model answered ${response.status}`);
  const { choices } = (await response.json()) as { choices: { message: Message }[] };
  return choices[0]?.message as Message;
}

/** Of OpenAI Agents, LangGraph and pydantic-ai, as they throw them. */
class AgentsError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}
class MaxTurnsExceededError extends AgentsError {}
class TooManySearches extends Error {}

/** A program of Python in which RAISE raises an exception of a package that need not be there. */
const python = (module: string, name: string, code: string) => `
import sys
class ${name}(Exception): __module__ = "${module}"
${code.replaceAll("RAISE", `raise ${name}`)}
`;

const inForm = {
  response_format: { type: "json_schema", json_schema: { name: "a", schema: { type: "object", required: ["day"] } } },
};

const moods: Record<string, (context: Context) => unknown> = {
  async "is content with another form"(context) {
    await ask(context, { response_format: { type: "json_object" } });
    return { reward: 0.5, success: true, parts: { polite: 1 } };
  },
  async "is content without the call"(context) {
    await ask(context, { tools: [tool("look")], tool_choice: "required", max_tokens: 1 });
    return 0.5;
  },
  async "asks for no form"(context) {
    await ask(context);
    return 0.5;
  },
  async "exceeds its framework's turns"(context) {
    await ask(context);
    throw new MaxTurnsExceededError("Max turns (1) exceeded");
  },
  async "wraps its framework's error"(context) {
    await ask(context);
    throw new Error("the agent failed", { cause: new MaxTurnsExceededError("Max turns (1) exceeded") });
  },
  async "throws the AI SDK's error"(context) {
    await ask(context);
    throw new NoSuchToolError({ toolName: "look", availableTools: [] });
  },
  async "asks the AI SDK for an object"({ model }) {
    await generateObject({
      model,
      prompt: "Hello",
      maxRetries: 0,
      maxOutputTokens: 4,
      schema: jsonSchema({ type: "object" }),
    });
    return 1;
  },
  async "throws what the task names"(context) {
    await ask(context);
    throw new TooManySearches("four");
  },
  async "repeats a service's answer"(context) {
    await ask(context);
    throw new Error('the service answered 500: {"detail": "agents.exceptions.ModelBehaviorError: Tool x not found"}');
  },
  async "runs a program that gives up"(context) {
    await ask(context);
    await context.run("python3", [
      "-c",
      python("agents.exceptions", "MaxTurnsExceeded", "RAISE('Max turns (3) exceeded')"),
    ]);
  },
  async "runs a program that logs it and exits"(context) {
    await ask(context);
    const code = `
try:
    RAISE("The next request would exceed the request_limit of 3")
except Exception:
    import logging
    logging.exception("the agent failed")
    sys.exit(2)`;
    await context.run("python3", ["-c", python("pydantic_ai.exceptions", "UsageLimitExceeded", code)]);
  },
  /** Whether the model calls a tool is its own affair: it is asked until it does. */
  async "trusts in the names of tools"(context) {
    const known: Record<string, () => string> = { look: () => "nothing" };
    for (let turn = 0; turn < 8; turn++) {
      const [call] = (await ask(context, { tools: [tool("look")] })).tool_calls ?? [];
      if (call) (known[call.function.name] as () => string)();
    }
    return -1;
  },
  async "trusts in arguments"(context) {
    const tools = [tool("search_inbox", { keywords: { type: "object", required: ["all"] } }), tool("read_email")];
    for (let turn = 0; turn < 8; turn++) {
      const [call] = (await ask(context, { tools })).tool_calls ?? [];
      if (call) (JSON.parse(call.function.arguments) as { keywords: { all: string } }).keywords.all.trim();
    }
    return -1;
  },
  async "cannot read a turn that was cut"(context) {
    JSON.parse((await ask(context, { max_tokens: undefined })).content ?? "");
  },
  async "cannot read an answer in another form"(context) {
    JSON.parse((await ask(context, inForm)).content ?? "");
  },

  // Faults of the program.
  async "has a defect"(context) {
    await ask(context, { max_tokens: 4 });
    throw new TypeError("the agent's own");
  },
  async "has a defect while it handles the model's"(context) {
    await ask(context);
    const code = `
try:
    RAISE("Max turns (3) exceeded")
except Exception:
    {}["defect"]`;
    await context.run("python3", ["-c", python("agents.exceptions", "MaxTurnsExceeded", code)]);
  },
  async "imports what is not there"(context) {
    await ask(context);
    await context.run("python3", ["-c", "from os import MaxTurnsExceeded"]);
  },
  async "asks the AI SDK's model to read a file"(context) {
    await ask(context, inForm);
    const file = { type: "file" as const, data: new Uint8Array(1), mediaType: "application/pdf" };
    await generateText({ model: context.model, messages: [{ role: "user", content: [file] }] });
  },
  async "is refused, and gives up"(context) {
    await ask(context);
    await ask(context, { top_p: 0.5 }).catch(() => undefined);
    throw new MaxTurnsExceededError("after a refusal");
  },
  async "runs a program that is killed"(context) {
    await ask(context, { tools: [tool("look")], max_tokens: undefined });
    await context.run("sh", ["-c", "kill -KILL $$"]);
  },
  async "returns nothing"(context) {
    await ask(context, { tools: [tool("look")] });
  },
  async "gives up before it has asked"() {
    throw new MaxTurnsExceededError("Max turns (0) exceeded");
  },
};

export const rollout = (context: Context) => moods[context.scenario.question]?.(context) as number;

export default defineTask<Scenario>({
  name: "mistakes",
  scenarios: () => [],
  modelMistakes: ["TooManySearches"],
  rollout,
});
