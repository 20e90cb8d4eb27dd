/** AI SDK with the provider of its documentation: `generateText` by OpenAI's Responses API. */
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ description, schema, run }) => tool({ description, inputSchema: schema, execute: run });

const { text } = await generateText({
  model: openai("gpt-5"),
  system,
  prompt: question,
  tools: { search_inbox: toolOf(search), read_email: toolOf(read) },
  stopWhen: stepCountIs(6),
});
console.log(text);
