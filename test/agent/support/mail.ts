/** A mail task that the tiny model knows how to play, in the parts that every way of playing it shares. */
import { defineTask, defineTool, type FinishedRollout, z } from "@hone-rl/hone";

export const scenarios = () => [
  { id: "m1", split: "train" as const, question: "When is the deadline of the project Falcon?" },
  { id: "m2", split: "train" as const, question: "Who has the invoice of the project Orion?" },
  { id: "m3", split: "test" as const, question: "When is the deadline of the project Lynx?" },
];

export const system =
  "You are an email search agent. Use the tools to search and read emails. You may take up to 6 turns. User's email address is a@x.example. Today's date is 2031-01-05.";

export const found = [
  { message_id: "<a1@x.example>", snippet: "the <b>Falcon</b> deadline is Friday" },
  { message_id: "<b2@x.example>", snippet: "lunch on Monday" },
];

export const body = "The deadline of Falcon is Friday, says Karen.";

export const parts = {
  search_inbox: {
    description: "Search the subjects and texts of the user's mails.",
    parameters: z.strictObject({ keywords: z.array(z.string()), from_addr: z.string().optional() }),
    execute: () => found as unknown,
  },
  read_email: {
    description: "Read one mail of the user.",
    parameters: z.strictObject({ message_id: z.string() }),
    execute: ({ message_id }: { message_id: string }) => ({ message_id, body }) as unknown,
  },
  return_final_answer: {
    description: "Answer the user's question. Ends the search.",
    parameters: z.strictObject({ answer: z.string(), reference_message_ids: z.array(z.string()) }),
    execute: undefined,
  },
};

export const MAX_TURNS = 6;

/** The tools as OpenAI's API takes them. */
export const apiTools = Object.entries(parts).map(([name, { description, parameters }]) => {
  const { $schema: _, ...schema } = z.toJSONSchema(parameters, { io: "input" });
  return { type: "function" as const, function: { name, description, parameters: schema } };
});

/** Something that differs between rollouts. */
export const rewardOf = (turns: number, answered: boolean) => ({
  reward: (answered ? 1 : 0) - turns / 20,
  success: answered,
  parts: { turns },
});

export default defineTask({
  name: "mail",
  scenarios,
  prompt: ({ question }) => [
    { role: "system", content: system },
    { role: "user", content: question },
  ],
  tools: Object.entries(parts).map(([name, { description, parameters, execute }]) =>
    defineTool({
      name,
      description,
      parameters: parameters as z.ZodObject,
      final: execute === undefined,
      execute: (args) => (execute ? (execute as (args: unknown) => unknown)(args) : "ok"),
    }),
  ),
  reward: ({ turns, answer }: FinishedRollout) => rewardOf(turns, answer !== undefined),
});
