/** The mail task as an agent of the AI SDK. */
import { defineTask } from "@hone-rl/hone";
import { generateText, hasToolCall, type StopCondition, stepCountIs, streamText, type ToolSet, tool } from "ai";
import { MAX_TURNS, parts, rewardOf, scenarios, system } from "./mail.js";

const tools = Object.fromEntries(
  Object.entries(parts).map(([name, { description, parameters, execute }]) => [
    name,
    tool({ description, inputSchema: parameters as never, ...(execute ? { execute: execute as never } : {}) }),
  ]),
) as ToolSet;

const final = "return_final_answer";

const wrongCall: StopCondition<ToolSet> = ({ steps }) =>
  steps.at(-1)?.toolCalls.some(({ invalid }) => invalid) === true;

export default defineTask({
  name: "mail-ai-sdk",
  scenarios,
  rollout: async ({ scenario, model, signal }) => {
    const asked = {
      model,
      system,
      prompt: scenario.question,
      tools,
      abortSignal: signal,
      maxRetries: 0,
      // The built-in loop is asked to stop at a wrong call, too.
      stopWhen: [stepCountIs(MAX_TURNS), hasToolCall(final), wrongCall],
    };
    // Every second scenario is streamed.
    const streamed = scenario.id === "m2";
    const result = streamed ? streamText(asked) : await generateText(asked);
    if (streamed) await (result as ReturnType<typeof streamText>).consumeStream();
    const steps = await result.steps;
    const answered = steps.some(({ toolCalls }) =>
      toolCalls.some(({ toolName, invalid }) => toolName === final && !invalid),
    );
    return rewardOf(steps.length, answered);
  },
});
