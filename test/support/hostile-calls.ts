/** Plays a hostile model against the email tools and checks each result against plain SQL. */
import Database from "better-sqlite3";
import { expect } from "vitest";
import { checkArguments } from "../../src/core/task/parameters.js";
import { type Tool, type ToolCall, ToolError } from "../../src/core/task/task.js";
import { Random } from "../../src/core/util/random.js";
import { openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";
import type { Ranking } from "../../src/email/search.js";
import { type EmailEnv, emailTools } from "../../src/email/tools.js";
import { HostileModel, type Knowledge } from "./hostile-model.js";

/** The person whose mail is requested, and the date. */
export type Asker = Pick<EmailScenario, "inbox_address" | "query_date">;

export interface Tally {
  calls: number;
  /** Refused by the tool's schema, or by the tool. */
  refused: number;
  hits: number;
  emptySearches: number;
  mailsRead: number;
}

function knowledgeOf(db: Database.Database): Knowledge {
  const column = (sql: string) => db.prepare(sql).pluck().all() as string[];
  const texts = column("SELECT subject || ' ' || substr(body, 1, 300) FROM emails ORDER BY id % 97, id LIMIT 400");
  return {
    words: [...new Set(texts.flatMap((text) => text.match(/[\p{L}\p{N}']+/gu) ?? [])), "the", "to", "a"],
    addresses: column("SELECT address FROM addresses ORDER BY id % 89, id LIMIT 500"),
    messageIds: [
      ...column("SELECT message_id FROM emails ORDER BY id % 83, id LIMIT 3000"),
      ...column("SELECT alias FROM message_aliases ORDER BY alias LIMIT 500"),
    ],
  };
}

/** Ids that this person may see on this day, by plain SQL over ART-E's tables. */
function visibleIds(db: Database.Database, { inbox_address, query_date }: Asker): Set<string> {
  const rows = db
    .prepare(
      `SELECT message_id FROM emails WHERE date < date(:day, '+1 day') AND
         (from_address = :inbox OR id IN (SELECT email_id FROM recipients WHERE recipient_address = :inbox))`,
    )
    .pluck()
    .all({ inbox: inbox_address, day: query_date }) as string[];
  return new Set(rows);
}

/** Executes a call as a rollout does: the result, or the error's message. */
function run({ name, arguments: args }: ToolCall, scenario: EmailScenario, env: EmailEnv): unknown {
  const tool = emailTools.find((candidate) => candidate.name === name) as unknown as Tool;
  const checked = checkArguments(tool.parameters, args);
  if ("problem" in checked) return { error: checked.problem };
  try {
    return tool.execute(checked.args, { scenario, env, signal: new AbortController().signal } as never);
  } catch (error) {
    if (error instanceof ToolError) return { error: error.message };
    throw new Error(`${name} ${JSON.stringify(args).slice(0, 500)} threw ${error}`, { cause: error });
  }
}

/** How many calls: more among the slower tests. */
export const MANY = process.env.TEST_FULL ? 10_000 : 2_000;

/** Plays `calls` calls, alternating between askers. Fails on anything but a short error, a list, or a mail they may see. */
export function playHostileCalls(file: string, askers: readonly Asker[], calls: number, rank: Ranking): Tally {
  const plain = new Database(file, { readonly: true });
  const env: EmailEnv = { mail: openMailDatabase(file), rank };
  const model = new HostileModel(knowledgeOf(plain), new Random("hostile", rank));
  const visible = askers.map((asker) => visibleIds(plain, asker));
  const tally: Tally = { calls: 0, refused: 0, hits: 0, emptySearches: 0, mailsRead: 0 };

  for (; tally.calls < calls; tally.calls++) {
    const turn = tally.calls % askers.length;
    const asker = askers[turn] as Asker;
    const allowed = visible[turn] as Set<string>;
    const call = model.call();
    const scenario = { id: "h", split: "test", question: "?", answer: "?", message_ids: [], ...asker } as EmailScenario;
    const result = run(call, scenario, env);
    const about = `${call.name} ${JSON.stringify(call.arguments).slice(0, 300)} of ${asker.inbox_address}`;

    if (typeof result === "object" && result !== null && "error" in result) {
      tally.refused++;
      expect(result.error, about).toEqual(expect.stringMatching(/^[^\0\n]{5,300}$/));
    } else if (call.name === "search_inbox") {
      const hits = result as { message_id: string; snippet: string }[];
      tally.hits += hits.length;
      if (hits.length === 0) tally.emptySearches++;
      expect(hits.length, about).toBeLessThanOrEqual(10);
      for (const hit of hits) {
        if (!allowed.has(hit.message_id)) throw new Error(`${about} shows ${hit.message_id}`);
        if (hit.snippet.length > 320) throw new Error(`${about} shows a snippet of ${hit.snippet.length} characters`);
      }
    } else if (call.name === "read_email") {
      const { message_id, body } = result as { message_id: string; body: string };
      tally.mailsRead++;
      if (!allowed.has(message_id)) throw new Error(`${about} shows ${message_id}`);
      expect(body.length, about).toBeLessThan(5100);
    } else expect(result, about).toBe("ok");
  }
  env.mail.close();
  plain.close();
  return tally;
}

/** The calls must reach enough mail to be able to reveal something forbidden. */
export function expectTeeth({ calls, refused, hits, emptySearches, mailsRead }: Tally): void {
  expect(refused).toBeGreaterThan(calls / 20);
  expect(hits).toBeGreaterThan(calls / 10);
  expect(emptySearches).toBeGreaterThan(calls / 50);
  expect(mailsRead).toBeGreaterThan(calls / 200);
}
