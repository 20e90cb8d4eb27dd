/** Anthropic's SDK: its tool runner, as in "Tool use". */
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { question, read, search, system } from "./mail.mjs";

const toolOf = ({ name, description, schema, run }) => betaZodTool({ name, description, inputSchema: schema, run });

const client = new Anthropic();
const message = await client.beta.messages.toolRunner({
  model: "claude-opus-5-5",
  max_tokens: 1024,
  system,
  tools: [toolOf(search), toolOf(read)],
  messages: [{ role: "user", content: question }],
});
console.log(message.content);
