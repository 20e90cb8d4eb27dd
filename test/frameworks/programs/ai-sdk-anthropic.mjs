/** AI SDK with Anthropic's provider: `streamText`. */
import { createAnthropic } from "@ai-sdk/anthropic";
import { stepCountIs, streamText, tool } from "ai";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ description, schema, run }) => tool({ description, inputSchema: schema, execute: run });
const anthropic = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` });

const result = streamText({
  model: anthropic("claude-opus-5-5"),
  system,
  prompt: question,
  tools: { search_inbox: toolOf(search), read_email: toolOf(read) },
  stopWhen: stepCountIs(6),
});
for await (const text of result.textStream) process.stdout.write(text);
