/**
 * How fast and in how much memory `yarn build-db` imports each form of mail: the command itself, in a process of its own.
 *
 *   node dist/bench/email-build.js [FORM] [COPIES]     FORM: tar.gz (default), mbox, jsonl, folder
 *
 * The mail is the sample of real mail, repeated (15 copies are 301,125 messages). Each copy of a message has an id and a
 * last line of its own, so that no copy folds into another; the sample's own duplicates stay duplicates.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough, type Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";
import { mboxMessages } from "../src/task/email/import/mbox.js";
import { readMessage } from "../src/task/email/import/message.js";
import { fileJobs } from "../src/task/email/import/sources.js";
import { HoneError, UsageError } from "../src/util/errors.js";
import { packageRoot } from "../src/util/paths.js";

const sample = join(packageRoot, "../shared/data/enron-sample");
const archives = ["maildir-3-owners.tar.gz", "mbox-kaminski-and-6-others.tar.gz"];
const folder = join(packageRoot, "build/bench-email");

/** The raw messages of the sample. */
async function sampleMessages(): Promise<Buffer[]> {
  const messages: Buffer[] = [];
  for (const archive of archives) {
    for await (const job of fileJobs(join(sample, archive), true, { done: 0, total: 0 })) {
      if (job.kind === "mbox") messages.push(...mboxMessages(Buffer.from(job.bytes)));
      if (job.kind === "messages") {
        job.ends.forEach((end, i) => {
          messages.push(Buffer.from(job.bytes).subarray(job.ends[i - 1] ?? 0, end));
        });
      }
    }
  }
  return messages;
}

function* copiesOf(messages: readonly Buffer[], copies: number): Generator<Buffer> {
  for (let copy = 0; copy < copies; copy++) {
    for (const message of messages) {
      const text = message
        .toString("latin1")
        .trimEnd()
        .replace(/^Message-ID: </m, copy === 0 ? "$&" : `$&${copy}.`);
      yield Buffer.from(`${text}\ncopy ${copy}\n`, "latin1");
    }
  }
}

async function put(output: Writable, content: string | Buffer): Promise<void> {
  if (!output.write(content)) await once(output, "drain");
}

/** Writers of each form: all messages into the file (or folder) `path`. */
const forms: Record<string, (messages: Iterable<Buffer>, path: string) => Promise<void>> = {
  async mbox(messages, path) {
    const output = createWriteStream(path);
    for (const message of messages) {
      const escaped = message.toString("latin1").replace(/^(>*From )/gm, ">$1");
      await put(output, Buffer.from(`From MAILER-DAEMON Sat Jan  1 00:00:00 2022\n${escaped}\n`, "latin1"));
    }
    await finished(output.end());
  },
  async "tar.gz"(messages, path) {
    const output = createWriteStream(path);
    const gzip = createGzip({ level: 6 });
    gzip.pipe(output);
    const archive = pack();
    const through = new PassThrough();
    archive.on("data", (chunk) => void through.write(chunk)).on("end", () => void through.end());
    through.pipe(gzip);
    let n = 0;
    for (const message of messages) {
      archive.entry({ name: `owner-${Math.floor(n / 5000)}/inbox/${n++}.` }, message);
      if (through.writableNeedDrain) await once(through, "drain");
    }
    archive.finalize();
    await finished(output);
  },
  async jsonl(messages, path) {
    const output = createWriteStream(path);
    for (const message of messages) {
      const { messageId: message_id, fileName: file_name, ...rest } = await readMessage(message, "x");
      await put(output, `${JSON.stringify({ message_id, file_name, ...rest })}\n`);
    }
    await finished(output.end());
  },
  async folder(messages, path) {
    let n = 0;
    for (const message of messages) {
      const file = join(path, `owner-${Math.floor(n / 5000)}/inbox/${n++}.`);
      if ((n - 1) % 5000 === 0) mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, message);
    }
  },
};

async function mailIn(form: string, copies: number): Promise<string> {
  const path = join(folder, `sample-x${copies}.${form}`);
  if (existsSync(path)) return path;
  const write = forms[form];
  if (!write) throw new UsageError(`${form} is no form of mail: give ${Object.keys(forms).join(", ")}`);
  mkdirSync(folder, { recursive: true });
  rmSync(`${path}.unfinished`, { recursive: true, force: true });
  await write(copiesOf(await sampleMessages(), copies), `${path}.unfinished`);
  renameSync(`${path}.unfinished`, path);
  return path;
}

/** The highest resident size of a process so far, in MB. */
function peakOf(pid: number | undefined): number | undefined {
  try {
    const line = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return line ? Number(line[1]) / 1024 : undefined;
  } catch {
    // No Linux, or the process has just ended.
    return undefined;
  }
}

async function measure(form: string, copies: number): Promise<object> {
  const cli = join(packageRoot, "dist/src/cli.js");
  const db = join(folder, "bench.db");
  const args = [cli, "build-db", "--json", "--db", db, "--from", await mailIn(form, copies)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let peak: number | undefined;
  const watch = setInterval(() => {
    peak = peakOf(child.pid) ?? peak;
  }, 50);
  let output = "";
  child.stdout.on("data", (text) => {
    output += text;
  });
  await once(child, "close");
  clearInterval(watch);
  const { read, imported, duplicates, seconds, error } = JSON.parse(output.trim().split("\n").at(-1) ?? "{}");
  if (error) throw new HoneError(error);
  rmSync(db);
  return {
    form,
    read,
    imported,
    duplicates,
    seconds,
    messages_per_second: Math.round(read / seconds),
    peak_megabytes: peak === undefined ? null : Math.round(peak),
  };
}

if (!existsSync(sample)) throw new HoneError("there is no sample of real mail at ../shared/data/enron-sample");
console.log(JSON.stringify(await measure(process.argv[2] ?? "tar.gz", Number(process.argv[3] ?? 15))));
