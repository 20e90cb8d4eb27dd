/** OpenAI Agents: "Function tools" of its documentation. */
import { Agent, run, tool } from "@openai/agents";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ name, description, schema, run: execute }) =>
  tool({ name, description, parameters: schema, execute });

const agent = new Agent({ name: "Mail", instructions: system, tools: [toolOf(search), toolOf(read)] });

const result = await run(agent, question);
console.log(result.finalOutput);
