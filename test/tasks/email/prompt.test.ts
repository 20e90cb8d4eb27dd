/** Where the email task's prompt names the inbox's address and the date, and what prompts then have in common. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { JinjaTemplate } from "../../../src/chat/jinja/template.js";
import { toolSchema } from "../../../src/core/task/task.js";
import { packageRoot } from "../../../src/core/util/paths.js";
import { emailTask } from "../../../src/email/email-task.js";
import { resolveTaskOptions } from "../../../src/scenarios/task-options.js";
import { databaseOf, mail, scenario, temporaryFolder } from "../../support/mails.js";

const folder = temporaryFolder();
afterAll(() => folder.remove());

const db = join(folder.path, "mail.db");
databaseOf(
  db,
  [mail({ messageId: "<1@x>", to: ["bob@x.com", "cat@x.com"] })],
  [scenario(), scenario({ id: "2", question: "When?", inbox_address: "cat@x.com", query_date: "2002-01-01" })],
).close();

// Like Qwen's, it writes tools behind the system message's text.
const template = new JinjaTemplate(readFileSync(join(packageRoot, "models/tiny/chat_template.jinja"), "utf8"));
const tools = emailTask.tools.map(toolSchema);

async function prompts(given: Record<string, string>): Promise<string[]> {
  const options = { ...resolveTaskOptions(emailTask, { db, ...given }), home: folder.path, seed: 1 };
  const scenarios = await emailTask.scenarios(options);
  return scenarios.map((one) =>
    template.render({ messages: emailTask.prompt(one, { maxTurns: 4 }), tools, add_generation_prompt: true }),
  );
}

const opening = "You are an email search agent. Use the tools to search and read emails. You may take up to 4 turns.";
const ending = 'Return a short final answer with the ids of the emails it stands in, or "not found".';
const about = ["bob@x.com. Today's date is 2001-02-04.", "cat@x.com. Today's date is 2002-01-01."].map(
  (text) => `User's email address is ${text}`,
);

it("names address and date in the system message, as ART-E does", async () => {
  const [first, second] = await prompts({});
  expect(first).toContain(`system\n${opening} ${about[0]} ${ending}\n`);
  expect(second).toContain(`system\n${opening} ${about[1]} ${ending}\n`);
  expect(first).toContain("user\nHow much?<|im_end|>");
});

it("names them behind the tools with --set inbox=question: up to there all prompts are one", async () => {
  const [first, second] = (await prompts({ inbox: "question" })).map((text) => text.split(/(?<=<\|im_start\|>user\n)/));
  expect(first?.[0]).toContain(`system\n${opening} ${ending}\n`);
  expect(first?.[0]).toContain("search_inbox(keywords");
  expect(second?.[0]).toBe(first?.[0]);
  expect(first?.[1]).toContain(`${about[0]}\n\nHow much?<|im_end|>`);
  expect(second?.[1]).toContain(`${about[1]}\n\nWhen?<|im_end|>`);
});
