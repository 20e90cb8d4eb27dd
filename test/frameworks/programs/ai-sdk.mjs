/** AI SDK in hone's process: the agent of "Building Agents", with hone's model. */
import { stepCountIs, ToolLoopAgent, tool } from "ai";
import { read, search, system } from "./mail.mjs";

const toolOf = ({ description, schema, run }) => tool({ description, inputSchema: schema, execute: run });

export async function play({ model, question, signal }) {
  const agent = new ToolLoopAgent({
    model,
    instructions: system,
    tools: { search_inbox: toolOf(search), read_email: toolOf(read) },
    stopWhen: stepCountIs(6),
  });
  const { text } = await agent.generate({ prompt: question, abortSignal: signal });
  return text;
}
