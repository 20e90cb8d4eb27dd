/**
 * A stand-in for the email tools: what ART-E's do, over the mails of one synthetic mailbox in memory. It plays a
 * scripted expert against them and keeps the conversation.
 */
import Database from "better-sqlite3";
import type { Mail } from "../../src/task/email/mail.js";
import { emailPrompt } from "../../src/task/email/prompt.js";
import type { EmailScenario } from "../../src/task/email/scenario.js";
import type { CallRecord, ExpertTurn, FinishedRollout, ToolCall } from "../../src/task/task.js";

const columns = "message_id UNINDEXED, date UNINDEXED, people UNINDEXED, subject, body";

export class FakeInbox {
  readonly #db = new Database(":memory:");
  readonly #mails: Map<string, Mail>;

  constructor(mails: readonly Mail[]) {
    this.#mails = new Map(mails.map((mail) => [mail.messageId, mail]));
    this.#db.exec(`CREATE VIRTUAL TABLE mail USING fts5(${columns})`);
    const insert = this.#db.prepare("INSERT INTO mail VALUES (?, ?, ?, ?, ?)");
    for (const { messageId, date, from, to, cc, subject, body } of mails) {
      insert.run(messageId, date, ` ${[from, ...to, ...cc].join(" ")} `, subject, body);
    }
  }

  call({ name, arguments: args }: ToolCall, scenario: EmailScenario): Pick<CallRecord, "outcome" | "result"> {
    if (name === "search_inbox") return { outcome: "ok", result: this.search(args.keywords as string[], scenario) };
    if (name === "return_final_answer") return { outcome: "ok", result: "ok" };
    const mail = this.#mails.get(args.message_id as string);
    const mine = mail && [mail.from, ...mail.to, ...mail.cc].includes(scenario.inbox_address);
    if (!mine || (mail.date as string).slice(0, 10) > scenario.query_date) {
      return { outcome: "tool_error", result: { error: "no such mail" } };
    }
    const { messageId: message_id, date, subject, from, to, cc, body } = mail;
    return { outcome: "ok", result: { message_id, date, subject, from, to, cc, body } };
  }

  search(keywords: string[], { inbox_address, query_date }: EmailScenario) {
    return this.#db
      .prepare(
        `SELECT message_id, snippet(mail, -1, '<b>', '</b>', ' ... ', 15) AS snippet FROM mail
         WHERE mail MATCH ? AND instr(people, ?) AND date < ? ORDER BY date DESC LIMIT 10`,
      )
      .all(keywords.map((word) => `"${word}"`).join(" "), ` ${inbox_address} `, `${query_date} 24`) as {
      message_id: string;
      snippet: string;
    }[];
  }
}

/** Plays a script to its end. `text` is the whole conversation as a chat template without frills would write it. */
export function playScript(
  inbox: FakeInbox,
  scenario: EmailScenario,
  script: Generator<ExpertTurn, void, CallRecord[]>,
  maxTurns = 10,
): FinishedRollout & { text: string } {
  const messages = emailPrompt(scenario, { maxTurns });
  const calls: CallRecord[] = [];
  const lines = messages.map(({ content }) => content);
  let records: CallRecord[] = [];
  for (let turn = 1; turn <= maxTurns; turn++) {
    const step = script.next(records);
    if (step.done)
      return { messages, calls, answer: undefined, end: "no_tool_call", turns: turn, maxTurns, text: lines.join("\n") };
    records = step.value.map((call) => ({ turn, ...call, ...inbox.call(call, scenario) }));
    calls.push(...records);
    lines.push(...step.value.map((call) => JSON.stringify(call)));
    const final = records.find(({ name }) => name === "return_final_answer");
    if (final) {
      return {
        messages,
        calls,
        answer: final.arguments,
        end: "answered",
        turns: turn,
        maxTurns,
        text: lines.join("\n"),
      };
    }
    lines.push(...records.map(({ result }) => JSON.stringify(result)));
  }
  return { messages, calls, answer: undefined, end: "turn_limit", turns: maxTurns, maxTurns, text: lines.join("\n") };
}
