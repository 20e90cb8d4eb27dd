/** The email task as an agent that asks the model over HTTP, with OpenAI's client. */
import OpenAI from "openai";
import { MAX_TURNS, mailAgent } from "./mail.js";

export default mailAgent("mail-http", async (mailbox, { baseUrl, apiKey }) => {
  const client = new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
  const messages = [...mailbox.messages] as OpenAI.ChatCompletionMessageParam[];
  while (mailbox.turns < MAX_TURNS && !mailbox.over) {
    const answer = await client.chat.completions.create(
      { model: "any", messages, tools: mailbox.tools },
      { signal: mailbox.signal },
    );
    mailbox.turns++;
    const message = answer.choices[0]?.message as OpenAI.ChatCompletionMessage;
    messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      if (call.type !== "function" || mailbox.over) continue;
      const content = await mailbox.call(call.function.name, JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
});
