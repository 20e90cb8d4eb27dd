/** Mastra: an agent with tools, as in "Agents" of its documentation. */

import { openai } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ name, description, schema, run }) =>
  createTool({ id: name, description, inputSchema: schema, execute: (input) => run(input) });

const agent = new Agent({
  id: "mail",
  name: "Mail",
  instructions: system,
  model: openai("gpt-5"),
  tools: { search_inbox: toolOf(search), read_email: toolOf(read) },
});

const result = await agent.generate(question, { maxSteps: 6 });
console.log(result.text);
