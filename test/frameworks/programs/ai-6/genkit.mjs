/** Genkit: "Tool calling" of its documentation. */
import { openAI } from "@genkit-ai/compat-oai/openai";
import { genkit } from "genkit";
import { question, read, search, system } from "./mail.mjs";

const ai = genkit({ plugins: [openAI()], model: openAI.model("gpt-5") });
const toolOf = ({ name, description, schema, run }) => ai.defineTool({ name, description, inputSchema: schema }, run);

const { text } = await ai.generate({ system, prompt: question, tools: [toolOf(search), toolOf(read)], maxTurns: 6 });
console.log(text);
