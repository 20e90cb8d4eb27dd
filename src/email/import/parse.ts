/** Parses one job to mails: all of the expensive work, on any thread. */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { HoneError } from "../../core/util/errors.js";
import { openParquet, type ParquetFile } from "../../machine/dataset/parquet.js";
import type { Mail } from "../mail.js";
import { NoMail } from "./body.js";
import { type ImportRules, type Job, MAX_MESSAGE_BYTES, type Parsed, type Skipped, type SkipReason } from "./job.js";
import { mboxMessages } from "./mbox.js";
import { readMessage } from "./message.js";
import { HEAD_BYTES, recognise } from "./recognise.js";
import { mailColumns, rowToMail } from "./rows.js";

/** Collects the results of one job. */
class Outcome {
  readonly mails: Mail[] = [];
  readonly skipped: Skipped[] = [];
  readonly containers: string[] = [];
  readonly #rules: ImportRules;

  constructor(rules: ImportRules) {
    this.#rules = rules;
  }

  skip(reason: SkipReason, fileName: string): void {
    this.skipped.push({ reason, fileName });
  }

  keep(mail: Mail): void {
    const { maxBody, maxRecipients } = this.#rules;
    if (maxBody > 0 && mail.body.length > maxBody) this.skip("body_too_long", mail.fileName);
    else if (maxRecipients > 0 && new Set([...mail.to, ...mail.cc, ...mail.bcc]).size > maxRecipients) {
      this.skip("too_many_recipients", mail.fileName);
    } else this.mails.push(mail);
  }

  async message(bytes: Buffer, fileName: string): Promise<void> {
    if (bytes.length > MAX_MESSAGE_BYTES) {
      this.skip("too_large", fileName);
      return;
    }
    try {
      const mail = readMessage(bytes, fileName);
      // Awaiting a value that is not a promise would cost more than parsing it.
      this.keep(mail instanceof Promise ? await mail : mail);
    } catch (error) {
      if (!(error instanceof NoMail)) throw error;
      this.skip(error.reason, fileName);
    }
  }

  row(row: unknown, fileName: string): void {
    const mail = rowToMail(row, fileName);
    if (mail) this.keep(mail);
    else this.skip("bad_row", fileName);
  }
}

/** A message's bytes; undefined for a file with many messages, or a too large one. */
function readFile(path: string, outcome: Outcome): Buffer | undefined {
  const file = openSync(path, "r");
  try {
    const head = Buffer.allocUnsafe(HEAD_BYTES);
    const length = readSync(file, head, 0, HEAD_BYTES, 0);
    const kind = recognise(head.subarray(0, length));
    if (kind === "message" || kind === "unknown") {
      if (length < HEAD_BYTES) return head.subarray(0, length);
      if (fstatSync(file).size <= MAX_MESSAGE_BYTES) return readFileSync(path);
      outcome.skip(kind === "message" ? "too_large" : "not_mail", path);
    } else outcome.containers.push(path);
    return undefined;
  } finally {
    closeSync(file);
  }
}

async function parseFiles(paths: readonly string[], outcome: Outcome): Promise<void> {
  for (const path of paths) {
    let bytes: Buffer | undefined;
    try {
      bytes = readFile(path, outcome);
    } catch {
      // No permission, deleted since, or a broken link: counted and listed in the summary.
      outcome.skip("unreadable", path);
      continue;
    }
    if (bytes) await outcome.message(bytes, path);
  }
}

function parseLines(bytes: Buffer, name: string, outcome: Outcome): void {
  for (const line of bytes
    .toString("utf8")
    .replace(/^\uFEFF/, "")
    .split("\n")) {
    if (line.trim() === "") continue;
    let row: unknown;
    try {
      row = JSON.parse(line);
    } catch {
      // Not JSON; `row` stays undefined.
    }
    outcome.row(row, name);
  }
}

/** Kept open between jobs, since its metadata can be large. One is enough: files are read one after the other. */
let parquet: { path: string; file: Promise<ParquetFile> } | undefined;

async function parseRows({ path, start, end }: Job & { kind: "parquet" }, outcome: Outcome): Promise<void> {
  if (parquet?.path !== path) {
    const before = parquet;
    parquet = { path, file: openParquet(path) };
    await (await before?.file)?.close();
  }
  const file = await parquet.file;
  const rows = await file.read(
    mailColumns.filter((column) => file.columns.includes(column)),
    start,
    end,
  );
  for (const row of rows) outcome.row(row, path);
}

/** Parses one job. */
export async function parseJob(job: Job, rules: ImportRules): Promise<Parsed> {
  const outcome = new Outcome(rules);
  const { mails, skipped, containers } = outcome;
  try {
    await run(job, outcome);
  } catch (error) {
    // Errors lose their class between threads.
    if (!(error instanceof HoneError)) throw error;
    return { mails, skipped, containers, failure: error.message };
  }
  return { mails, skipped, containers };
}

async function run(job: Job, outcome: Outcome): Promise<void> {
  switch (job.kind) {
    case "files":
      await parseFiles(job.paths, outcome);
      break;
    case "messages": {
      let start = 0;
      const bytes = Buffer.from(job.bytes.buffer);
      for (const [index, end] of job.ends.entries()) {
        await outcome.message(bytes.subarray(start, end), job.names[index] ?? "");
        start = end;
      }
      break;
    }
    case "mbox":
      for (const message of mboxMessages(Buffer.from(job.bytes.buffer))) await outcome.message(message, job.name);
      break;
    case "jsonl":
      parseLines(Buffer.from(job.bytes.buffer), job.name, outcome);
      break;
    case "parquet":
      await parseRows(job, outcome);
      break;
    case "skipped":
      outcome.skipped.push(...job.skipped);
      break;
  }
}
