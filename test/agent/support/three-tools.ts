/**
 * An agent with three tools and its own limit of turns, for a model that calls those of the mail task: of its three it knows one
 * as it is, one by name alone, and calls others that are not there.
 */
import { defineTask } from "@hone-rl/hone";
import { body, found, scenarios, system } from "./mail.js";

interface Message {
  readonly role: string;
  readonly content: string | null;
  readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly name: string } }[];
}

const tool = (name: string, properties: object, required: string[]) => ({
  type: "function",
  function: { name, description: `${name}.`, parameters: { type: "object", properties, required } },
});

const tools = [
  tool("read_email", { city: { type: "string" } }, ["city"]),
  tool("return_final_answer", { answer: { type: "string" } }, ["answer"]),
  tool("convert_fahrenheit", { temperature: { type: "number" } }, ["temperature"]),
];

/** As if the tools of the mail task were there: so the model goes on as it knows. */
const results: Readonly<Record<string, unknown>> = { search_inbox: found, read_email: { body } };

/** The agent's own limit: below hone's. */
const TURNS = 4;

/** Something that differs between rollouts. */
const rewardOf = (messages: readonly object[]) => -JSON.stringify(messages).length / 10_000;

export default defineTask({
  name: "three-tools",
  scenarios,
  rollout: async ({ scenario, baseUrl, apiKey }) => {
    const messages: object[] = [
      { role: "system", content: system },
      { role: "user", content: scenario.question },
    ];
    for (let turn = 1; turn <= TURNS; turn++) {
      const response = await fetch(`${baseUrl}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ model: "any", messages, tools }),
      });
      const { choices } = (await response.json()) as { choices: [{ message: Message }] };
      const [{ message }] = choices;
      messages.push(message);
      if (!message.tool_calls) return rewardOf(messages);
      for (const { id, function: called } of message.tool_calls) {
        messages.push({ role: "tool", tool_call_id: id, content: JSON.stringify(results[called.name] ?? null) });
      }
    }
    return rewardOf(messages);
  },
});
