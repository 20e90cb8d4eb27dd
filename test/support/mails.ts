/** Small mail databases for tests. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Mail } from "../../src/email/mail.js";
import { type MailDatabase, openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";
import { openMailDatabaseWriter } from "../../src/email/writer.js";

let made = 0;

/** A mail from ann to bob with an id of its own, unless given otherwise. */
export function mail(over: Partial<Mail> = {}): Mail {
  made++;
  return {
    messageId: `<${made}@x>`,
    subject: "Budget",
    from: "ann@x.com",
    to: ["bob@x.com"],
    cc: [],
    bcc: [],
    date: "2001-02-03 04:05:06",
    body: `The budget is ${made}.`,
    fileName: `ann/${made}`,
    ...over,
  };
}

export function scenario(over: Partial<EmailScenario> = {}): EmailScenario {
  return {
    id: "1",
    split: "train",
    question: "How much?",
    answer: "5",
    message_ids: ["<1@x>"],
    inbox_address: "bob@x.com",
    query_date: "2001-02-04",
    ...over,
  };
}

/** A new folder, and a function to remove it. */
export function temporaryFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "hone-mail-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Writes a database with these mails and opens it. */
export function databaseOf(
  file: string,
  mails: readonly Mail[],
  scenarios: readonly EmailScenario[] = [],
): MailDatabase {
  const writer = openMailDatabaseWriter(file);
  for (const one of mails) writer.add(one);
  writer.addScenarios(scenarios);
  writer.finish();
  return openMailDatabase(file);
}
