/** A task that a model of random weights can learn: write vowels. Its reward is the share of vowels in what was written. */
import { defineTask, defineTool, z } from "hone";

const done = defineTool({
  name: "done",
  description: "Ends it.",
  parameters: z.object({}),
  final: true,
  execute: () => "",
});

export default defineTask({
  name: "vowels",
  scenarios: () =>
    Array.from({ length: 24 }, (_, i) => ({
      id: `v${i}`,
      split: i < 16 ? ("train" as const) : ("test" as const),
      question: `Write ${i}.`,
    })),
  prompt: (scenario) => [{ role: "user", content: scenario.question }],
  tools: [done],
  reward: (rollout) => {
    const text = rollout.messages
      .filter(({ role }) => role === "assistant")
      .map(({ content }) => content)
      .join("");
    const share = text.length === 0 ? 0 : (text.match(/[aeiou]/gi)?.length ?? 0) / text.length;
    return { reward: share, success: share >= 0.5, parts: { vowels: share } };
  },
});
