/** An agent of the AI SDK that asks for an object, which nothing in the prompt describes. */
import { defineTask } from "@hone-rl/hone";
import { generateText, jsonSchema, Output } from "ai";

interface Verdict {
  readonly kind: "animal" | "tool" | "country";
  readonly certain: boolean;
  readonly why?: string | null;
}

const schema = jsonSchema<Verdict>({
  type: "object",
  properties: {
    kind: { enum: ["animal", "tool", "country"] },
    certain: { type: "boolean" },
    why: { type: ["string", "null"], maxLength: 8 },
  },
  required: ["kind", "certain"],
  additionalProperties: false,
});

export default defineTask({
  name: "verdict",
  scenarios: () =>
    ["hammer", "horse", "Peru", "spade", "whale", "Chad"].map((question, index) => ({
      id: `v${index}`,
      split: index === 0 ? "test" : "train",
      question,
    })),
  rollout: async ({ scenario, model, signal }) => {
    const { output } = await generateText({
      model,
      prompt: `What kind of thing is: ${scenario.question}?`,
      output: Output.object({ schema }),
      abortSignal: signal,
      maxRetries: 0,
    });
    const reward = (output.kind === "tool" ? 0.8 : 0) + (output.certain ? 0.2 : 0);
    return { reward, success: output.kind === "tool", parts: {} };
  },
});
