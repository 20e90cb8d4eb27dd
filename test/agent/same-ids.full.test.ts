/** One task played in several ways: the same scenario and the same draws are the same token ids, and learn the same. */
import { expect, test } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { ChatMessage } from "../../src/core/task/task.js";
import { playTask, support } from "./support/playing.js";

const scenarios = ["m1", "m2"].map((id, index) => ({
  id,
  split: "train" as const,
  question: ["When is the deadline of the project Falcon?", "Who has the invoice of the project Orion?"][
    index
  ] as string,
}));

const ways = {
  "the built-in loop": "mail.ts",
  "an agent of the AI SDK, in this process": "mail-ai-sdk.ts",
  "an agent over HTTP": "mail-http.ts",
  "a Python program": "mail-python.ts",
};

function withoutIds(message: ChatMessage): object {
  if (message.role === "tool") return { ...message, id: undefined };
  if (message.role !== "assistant") return message;
  return {
    ...message,
    tool_calls: message.tool_calls?.map(({ name, arguments: args }) => ({ name, arguments: args })),
  };
}

test("the mail task draws the same token ids built in, by the AI SDK, by OpenAI's client and by a Python program", async () => {
  const played: Record<string, Trajectory[]> = {};
  for (const [way, file] of Object.entries(ways)) {
    const { groups, failures } = await playTask(support(file), scenarios, { seedName: 3 });
    expect(failures).toEqual([]);
    played[way] = groups.flat();
  }
  const [builtIn, ...agents] = Object.values(played) as [Trajectory[], ...Trajectory[][]];
  expect(Math.max(...builtIn.map(({ turns }) => turns))).toBeGreaterThan(2);
  for (const agent of agents) {
    agent.forEach((one, index) => {
      const other = builtIn[index] as Trajectory;
      expect(one.tokens?.ids).toEqual(other.tokens?.ids);
      expect(one.tokens?.sampled).toEqual(other.tokens?.sampled);
      one.tokens?.logprobs.forEach((logprob, at) => {
        expect(Math.abs(logprob - (other.tokens?.logprobs[at] as number))).toBeLessThan(1e-3);
      });
      // Without ids, which the built-in loop gives to templates that show them alone.
      const shown = ({ messages }: Trajectory) => messages.map((message) => withoutIds(message));
      expect(shown(one)).toEqual(shown(other).slice(0, one.messages.length));
      expect({ ...one.agent }).toEqual({ completions: other.turns, sequences: 1 });
      expect([one.completionTokens, one.turns, one.branches]).toEqual([other.completionTokens, other.turns, undefined]);
    });
  }
});
