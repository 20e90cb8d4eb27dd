/** LangChain: `createAgent`, as in its quickstart. */
import { createAgent, tool } from "langchain";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ name, description, schema, run }) => tool(run, { name, description, schema });

const agent = createAgent({ model: "openai:gpt-5", tools: [toolOf(search), toolOf(read)], systemPrompt: system });

const result = await agent.invoke({ messages: [{ role: "user", content: question }] });
console.log(result.messages.at(-1).content);
