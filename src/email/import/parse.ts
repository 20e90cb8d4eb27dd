/** Parses one job to mails: all of the expensive work, on any thread. */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { HoneError } from "../../core/util/errors.js";
import { openParquet, type ParquetFile } from "../../machine/dataset/parquet.js";
import type { Mail } from "../mail.js";
import { NoMail } from "./body.js";
import { type ImportRules, type Job, MAX_MESSAGE_BYTES, type Parsed, type Skipped, type SkipReason } from "./job.js";
import { jsonRows } from "./lines.js";
import { mboxMessages } from "./mbox.js";
import { readMessage } from "./message.js";
import { HEAD_BYTES, recognise } from "./recognise.js";
import { mailColumns, rowToMail } from "./rows.js";

type Outcome = ReturnType<typeof outcomeOf>;

/** Collects the results of one job. */
function outcomeOf({ maxBody, maxRecipients }: ImportRules) {
  const mails: Mail[] = [];
  const skipped: Skipped[] = [];
  const containers: string[] = [];
  const skip = (reason: SkipReason, fileName: string) => void skipped.push({ reason, fileName });

  function keep(mail: Mail): void {
    if (maxBody > 0 && mail.body.length > maxBody) skip("body_too_long", mail.fileName);
    else if (maxRecipients > 0 && new Set([...mail.to, ...mail.cc, ...mail.bcc]).size > maxRecipients) {
      skip("too_many_recipients", mail.fileName);
    } else mails.push(mail);
  }

  async function message(bytes: Buffer, fileName: string): Promise<void> {
    if (bytes.length > MAX_MESSAGE_BYTES) return skip("too_large", fileName);
    try {
      const mail = readMessage(bytes, fileName);
      // Awaiting a value that is not a promise would cost more than parsing it.
      keep(mail instanceof Promise ? await mail : mail);
    } catch (error) {
      if (!(error instanceof NoMail)) throw error;
      skip(error.reason, fileName);
    }
  }

  function row(values: unknown, fileName: string): void {
    const mail = rowToMail(values, fileName);
    if (mail) keep(mail);
    else skip("bad_row", fileName);
  }

  return { mails, skipped, containers, skip, message, row };
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

/** Kept between jobs, since its metadata can be large. One is enough: files are read one after the other. */
let parquet: { path: string; file: Promise<ParquetFile> } | undefined;

async function parseRows({ path, start, end }: Job & { kind: "parquet" }, outcome: Outcome): Promise<void> {
  if (parquet?.path !== path) parquet = { path, file: openParquet(path) };
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
  const outcome = outcomeOf(rules);
  const { mails, skipped, containers } = outcome;
  const failure = await run(job, outcome).catch((error: unknown) => {
    // Errors lose their class between threads.
    if (error instanceof HoneError) return error.message;
    throw error;
  });
  return { mails, skipped, containers, ...(failure === undefined ? {} : { failure }) };
}

async function run(job: Job, outcome: Outcome): Promise<undefined> {
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
      for (const row of jsonRows(Buffer.from(job.bytes.buffer))) outcome.row(row, job.name);
      break;
    case "parquet":
      await parseRows(job, outcome);
      break;
    case "skipped":
      outcome.skipped.push(...job.skipped);
      break;
  }
}
