/** A mail task that the tiny model knows how to play, without a database: every search finds the same. */
import { z } from "zod";
import { defineTask, defineTool } from "../../src/core/task/task.js";

const found = [
  { message_id: "<a1@x.example>", snippet: "the <b>Falcon</b> deadline is Friday" },
  { message_id: "<b2@x.example>", snippet: "lunch on Monday" },
];

export const mailTask = defineTask({
  name: "serve-mail",
  scenarios: () => [
    { id: "m1", split: "train", question: "When is the deadline of the project Falcon?" },
    { id: "m2", split: "train", question: "Who has the invoice of the project Orion?" },
  ],
  prompt: ({ question }) => [
    {
      role: "system",
      content:
        "You are an email search agent. Use the tools to search and read emails. You may take up to 6 turns. User's email address is a@x.example. Today's date is 2031-01-05.",
    },
    { role: "user", content: question },
  ],
  tools: [
    defineTool({
      name: "search_inbox",
      description: "Search the subjects and texts of the user's mails.",
      parameters: z.object({ keywords: z.array(z.string()), from_addr: z.string().optional() }),
      execute: () => found,
    }),
    defineTool({
      name: "read_email",
      description: "Read one mail of the user.",
      parameters: z.object({ message_id: z.string() }),
      execute: ({ message_id }) => ({ message_id, body: "The deadline of Falcon is Friday, says Karen." }),
    }),
    defineTool({
      name: "return_final_answer",
      description: "Answer the user's question. Ends the search.",
      parameters: z.object({ answer: z.string(), reference_message_ids: z.array(z.string()) }),
      final: true,
      execute: () => "ok",
    }),
  ],
  reward: ({ answer }) => ({ reward: answer ? 1 : 0, success: Boolean(answer), parts: {} }),
});
