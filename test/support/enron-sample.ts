/**
 * The sample of real mail, ../shared/data/enron-sample beside the repository. Where it is absent its tests are skipped
 * with a message. The raw messages are read here without the importer, as an independent reference.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { parse } from "../../src/email/import/parse.js";
import { inFile } from "../../src/email/import/sources.js";
import type { Mail } from "../../src/email/mail.js";

const folder = resolve(packageRoot, "../shared/data/enron-sample");

export const maildirArchive = join(folder, "maildir-3-owners.tar.gz");
export const mboxArchive = join(folder, "mbox-kaminski-and-6-others.tar.gz");
export const allQuestions = join(folder, "questions.jsonl");
export const coveredQuestions = join(folder, "questions-covered.jsonl");

export function describeSample(name: string, tests: () => void): void {
  if (existsSync(folder)) describe(name, tests);
  else describe.skip(`${name} (skipped: ../shared/data/enron-sample is not there)`, tests);
}

export interface RawMessage {
  /** In the archive. */
  readonly path: string;
  /** Bytes as Latin-1; in an mbox without the From line, escapes included. */
  readonly text: string;
  /** Up to the first empty line. */
  readonly header: string;
  readonly body: string;
}

/** The files of a tar.gz: names under 100 bytes, regular files and folders only, which is all the sample has. */
export function* filesOf(archive: string): Generator<{ path: string; bytes: Buffer }> {
  const tar = gunzipSync(readFileSync(archive));
  for (let at = 0; tar[at] !== 0; ) {
    const field = (from: number, to: number) => tar.toString("latin1", at + from, at + to).replace(/\0.*/s, "");
    const size = Number.parseInt(field(124, 136), 8);
    if (field(156, 157) !== "5") yield { path: field(0, 100), bytes: tar.subarray(at + 512, at + 512 + size) };
    at += 512 + Math.ceil(size / 512) * 512;
  }
}

export function rawMessages(archive: string): RawMessage[] {
  const messages: RawMessage[] = [];
  for (const { path, bytes } of filesOf(archive)) {
    const whole = bytes.toString("latin1");
    const texts = archive === mboxArchive ? whole.split(/^From MAILER-DAEMON .*\n/m).slice(1) : [whole];
    for (const text of texts) {
      const end = text.indexOf("\n\n");
      messages.push({ path, text, header: text.slice(0, end), body: text.slice(end + 2) });
    }
  }
  return messages;
}

/** The importer's result for an archive: `most` mails or somewhat more. */
export async function importedMails(archive: string, most = Number.POSITIVE_INFINITY): Promise<Mail[]> {
  const mails: Mail[] = [];
  for await (const found of inFile(archive, true, { done: 0, total: 0 })) {
    for (const one of found) {
      const mail = await parse(one, { maxBody: 0, maxRecipients: 0 });
      if ("reason" in mail) throw new Error(`skipped ${JSON.stringify(mail)}`);
      mails.push(mail);
    }
    if (mails.length >= most) break;
  }
  return mails;
}
