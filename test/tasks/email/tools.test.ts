import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { z } from "zod";
import { type CallRecord, type FinishedRollout, ToolError, toolSchema } from "../../../src/core/task/task.js";
import { Random } from "../../../src/core/util/random.js";
import { buildMailDatabase } from "../../../src/email/building/build.js";
import { emailTask } from "../../../src/email/email-task.js";
import type { EmailScenario } from "../../../src/email/scenario.js";
import type { EmailEnv } from "../../../src/email/tools.js";
import { databaseOf, mail, scenario, temporaryFolder } from "../../support/mails.js";

const folder = temporaryFolder();
afterAll(() => folder.remove());

const tool = (name: string) => {
  const found = emailTask.tools.find((candidate) => candidate.name === name);
  if (!found) throw new Error(`no tool ${name}`);
  return found;
};

function call(name: string, args: unknown, asked: EmailScenario, env: EmailEnv): unknown {
  const { parameters, execute } = tool(name);
  return execute((parameters as z.ZodObject).parse(args), {
    scenario: asked,
    env,
    signal: new AbortController().signal,
  });
}

it("has ART-E's tools with ART-E's arguments, and a schema small enough for a small context", () => {
  const schemas = emailTask.tools.map(toolSchema);
  const shape = schemas.map(({ function: { name, parameters } }) => [
    name,
    Object.keys(parameters.properties as object),
    parameters.required,
  ]);
  expect(shape).toEqual([
    ["search_inbox", ["keywords", "from_addr", "to_addr", "sent_after", "sent_before", "max_results"], ["keywords"]],
    ["read_email", ["message_id"], ["message_id"]],
    ["return_final_answer", ["answer", "reference_message_ids"], ["answer", "reference_message_ids"]],
  ]);
  expect(emailTask.tools.map(({ final }) => final)).toEqual([false, false, true]);
  expect(JSON.stringify(schemas).length).toBeLessThan(1500);
});

it.each([
  ["search_inbox", { keywords: "budget" }],
  ["search_inbox", { keywords: ["budget"], sender: "ann@x.com" }],
  ["search_inbox", {}],
  ["read_email", { message_ids: ["<1@x>"] }],
  ["read_email", { message_id: 1 }],
  ["return_final_answer", { answer: "5" }],
])("refuses what does not fit the schema: %s %j", (name, args) => {
  expect((tool(name).parameters as z.ZodObject).safeParse(args).success).toBe(false);
});

describe("on a database", () => {
  let env: EmailEnv;
  const asked = scenario({ query_date: "2001-02-04" });
  beforeAll(() => {
    const many = Array.from({ length: 40 }, (_, n) => `p${n}@x.com`);
    const db = databaseOf(`${folder.path}/tools.db`, [
      mail({ messageId: "<short>", subject: "Lunch", body: "Lunch is at noon." }),
      mail({ messageId: "<long>", to: ["bob@x.com", ...many], cc: ["cy@x.com"], body: `memo ${"🦅".repeat(30_000)}` }),
      mail({ messageId: "<later>", date: "2001-02-05 00:00:00", body: "lunch tomorrow" }),
    ]);
    env = { mail: db, rank: "date" };
  });
  afterAll(() => emailTask.close(env));

  it("search_inbox lists ids and snippets", () => {
    expect(call("search_inbox", { keywords: ["lunch", "noon"] }, asked, env)).toEqual([
      { message_id: "<short>", snippet: "<b>Lunch</b> is at <b>noon</b>." },
    ]);
    expect(call("search_inbox", { keywords: ["supper"] }, asked, env)).toEqual([]);
  });

  it("read_email gives the mail without empty fields", () => {
    expect(call("read_email", { message_id: "<short>" }, asked, env)).toEqual({
      message_id: "<short>",
      date: "2001-02-03 04:05:06",
      subject: "Lunch",
      from: "ann@x.com",
      to: ["bob@x.com"],
      body: "Lunch is at noon.",
    });
  });

  it("read_email cuts enormous mails and lists, and says so", () => {
    const { to, cc, body } = call("read_email", { message_id: "<long>" }, asked, env) as Record<string, string>;
    expect(to).toHaveLength(31);
    expect(to?.at(-1)).toBe("and 11 more");
    expect(cc).toEqual(["cy@x.com"]);
    expect(body).toMatch(/^memo (🦅)+\n\[cut here: the mail has 60005 characters\]$/u);
    expect(body?.length).toBeLessThan(5100);
  });

  it("read_email says the same of a later mail and of none", () => {
    for (const id of ["<later>", "<none>"]) {
      const read = () => call("read_email", { message_id: id }, asked, env);
      expect(read).toThrow(ToolError);
      expect(read).toThrow(`the user has no mail with the id "${id}"`);
    }
  });
});

/** Plays the expert through the real tools. `text` is all that a chat template would have to write down. */
async function playExpert(asked: EmailScenario, env: EmailEnv): Promise<FinishedRollout & { text: string }> {
  const maxTurns = 10;
  const messages = emailTask.prompt(asked, { maxTurns });
  const calls: CallRecord[] = [];
  const script = await emailTask.expert?.(asked, new Random("expert", asked.id), {});
  const written = messages.map(({ content }) => content);
  for (let turn = 1, records: CallRecord[] = []; ; turn++) {
    const step = script?.next(records);
    if (!step || step.done || !Array.isArray(step.value))
      throw new Error(`the expert stopped without an answer: ${asked.id}`);
    records = step.value.map(({ name, arguments: args }) => ({
      turn,
      name,
      arguments: args,
      outcome: "ok",
      result: call(name, args, asked, env),
    }));
    calls.push(...records);
    written.push(
      ...step.value.map((one) => JSON.stringify(one)),
      ...records.map(({ result }) => JSON.stringify(result)),
    );
    const answer = records.find(({ name }) => name === "return_final_answer")?.arguments;
    if (answer) return { messages, calls, answer, end: "answered", turns: turn, maxTurns, text: written.join("\n") };
  }
}

it("a perfect expert solves every synthetic scenario, in conversations that fit a tiny model", async () => {
  const db = `${folder.path}/synthetic.db`;
  await buildMailDatabase({ db, source: { kind: "synthetic", seed: 3, mailboxes: 30 } });
  const options = { db, rank: "date" };
  const scenarios = await emailTask.scenarios(options);
  expect(scenarios.length).toBeGreaterThan(100);
  const env = await emailTask.open(options);
  const tools = JSON.stringify(emailTask.tools.map(toolSchema));
  for (const asked of scenarios) {
    const played = await playExpert(asked, env);
    const { success, reward } = await emailTask.reward(played, asked, env);
    expect([asked.id, success, reward > 0.9]).toEqual([asked.id, true, true]);
    expect(played.text.length).toBeLessThan(2800);
  }
  expect(tools.length).toBeLessThan(1500);
  emailTask.close(env);
});

it("names evidence by the id that searches show, also when the question names a folded copy", async () => {
  const db = `${folder.path}/folded.db`;
  const copy = { body: "the same", subject: "same" };
  databaseOf(
    db,
    [mail({ ...copy, messageId: "<first>" }), mail({ ...copy, messageId: "<second>" })],
    [scenario({ message_ids: ["<second>", "<first>", "<gone>"] })],
  ).close();
  const [only] = await emailTask.scenarios({ db });
  expect(only?.message_ids).toEqual(["<first>", "<gone>"]);
});
