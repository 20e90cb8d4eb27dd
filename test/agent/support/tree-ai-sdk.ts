/** An AI SDK agent whose rollouts are trees: a conversation that goes on in two ways, and a sub-agent. */
import { defineTask } from "@hone-rl/hone";
import { generateText, type ModelMessage } from "ai";
import { scenarios, system } from "./mail.js";

export default defineTask({
  name: "tree",
  scenarios,
  rollout: async ({ scenario, model, signal }) => {
    const ask = (messages: ModelMessage[], instructions = system) =>
      generateText({ model, system: instructions, messages, abortSignal: signal, maxOutputTokens: 24, maxRetries: 0 });
    const question: ModelMessage = { role: "user", content: scenario.question };
    const first = await ask([question]);
    const trunk = [question, ...first.response.messages];
    const [left, right, sub] = await Promise.all([
      ask([...trunk, { role: "user", content: "Search again." }]),
      ask([...trunk, { role: "user", content: "Answer now." }]),
      ask([{ role: "user", content: first.text }], "You sum up."),
    ]);
    return [first, left, right, sub].reduce((sum, { text }) => sum + (text.match(/e/g)?.length ?? 0), 0) / 40;
  },
});
