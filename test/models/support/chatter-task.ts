/** A question with all that is awkward to cut into tokens, and a tool that no model of random weights calls. */
import { defineTask, defineTool, z } from "@hone-rl/hone";

export const awkward = 'Grüße, 今日は 12345 \t tabs\r\nand  spaces 🙂\n\n\n— “quotes” \'ll $1,000.50 {"a": [1]}';

const look = defineTool({
  name: "look",
  description: `Looks something up. ${awkward}`,
  parameters: z.object({ word: z.string() }),
  execute: () => "",
});

export default defineTask({
  name: "chatter",
  scenarios: () =>
    Array.from({ length: 8 }, (_, i) => ({
      id: `c${i}`,
      split: i < 6 ? ("train" as const) : ("test" as const),
      question: `Number ${i}? ${awkward}`,
    })),
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [look],
  // Any that differs between rollouts.
  reward: ({ messages }) => {
    const text = messages.flatMap(({ role, content }) => (role === "assistant" ? [content] : [])).join("");
    return { reward: (text.length % 97) / 97, success: false, parts: {} };
  },
});
