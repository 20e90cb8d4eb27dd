/** VoltAgent: an agent with tools, as in "Agents" of its documentation. */
import { openai } from "@ai-sdk/openai";
import { Agent, createTool } from "@voltagent/core";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ name, description, schema, run: execute }) =>
  createTool({ name, description, parameters: schema, execute });

const agent = new Agent({
  name: "mail",
  instructions: system,
  model: openai("gpt-5"),
  tools: [toolOf(search), toolOf(read)],
});

const { text } = await agent.generateText(question, { maxSteps: 6 });
console.log(text);
// Its timers keep a program that has answered.
process.exit();
