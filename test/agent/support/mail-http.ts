/** The mail task as an agent that speaks OpenAI's API, with the client for it. */
import { defineTask } from "@hone-rl/hone";
import OpenAI from "openai";
import { MAX_TURNS, parts, rewardOf, scenarios, system, apiTools as tools } from "./mail.js";

export default defineTask({
  name: "mail-http",
  scenarios,
  rollout: async ({ scenario, baseUrl, apiKey, signal }) => {
    const client = new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: "system", content: system },
      { role: "user", content: scenario.question },
    ];
    for (let turn = 1; turn <= MAX_TURNS; turn++) {
      const completion = await client.chat.completions.create({ model: "any", messages, tools }, { signal });
      const message = completion.choices[0]?.message as OpenAI.ChatCompletionMessage;
      messages.push(message);
      const calls = (message.tool_calls ?? []).filter((call) => call.type === "function");
      if (calls.length === 0) return rewardOf(turn, false);
      for (const call of calls) {
        const part = parts[call.function.name as keyof typeof parts];
        const args = part?.parameters.safeParse(JSON.parse(call.function.arguments));
        if (!args?.success) return rewardOf(turn, false);
        if (!part.execute) return rewardOf(turn, true);
        const result = (part.execute as (args: unknown) => unknown)(args.data);
        messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
      }
    }
    return rewardOf(MAX_TURNS, false);
  },
});
