/** The mail task's prompt and tools, for agents of every framework in JavaScript. */
import { readFileSync } from "node:fs";
import { z } from "zod";

const about = JSON.parse(readFileSync(new URL("mail.json", import.meta.url), "utf8"));
export const system = about.system;
export const question = process.argv[2];

export const search = {
  name: "search_inbox",
  description: "Search the subjects and texts of the user's mails.",
  schema: z.object({ keywords: z.array(z.string()) }),
  run: async () => JSON.stringify(about.found),
};

export const read = {
  name: "read_email",
  description: "Read one mail of the user.",
  schema: z.object({ message_id: z.string() }),
  run: async ({ message_id }) => JSON.stringify({ message_id, body: about.body }),
};
