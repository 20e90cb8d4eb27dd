/** The email task as an agent of the AI SDK, in the process of the engine. */
import { dynamicTool, generateText, jsonSchema, type LanguageModel, stepCountIs, type ToolSet } from "ai";
import { MAX_TURNS, mailAgent } from "./mail.js";

export default mailAgent("mail-ai-sdk", async (mailbox, { model }) => {
  const tools = mailbox.tools.map(({ function: { name, description, parameters } }) => [
    name,
    dynamicTool({
      description,
      inputSchema: jsonSchema(parameters),
      execute: (args) => mailbox.call(name, args as Record<string, unknown>),
    }),
  ]);
  const [system, ...messages] = mailbox.messages;
  await generateText({
    model: model as LanguageModel,
    system: system?.content as string,
    messages: messages as never,
    tools: Object.fromEntries(tools) as ToolSet,
    maxRetries: 0,
    abortSignal: mailbox.signal,
    stopWhen: [
      stepCountIs(MAX_TURNS),
      ({ steps }) => mailbox.over || steps.at(-1)?.toolCalls.some(({ invalid }) => invalid) === true,
    ],
    onStepFinish: () => {
      mailbox.turns++;
    },
  });
});
