/**
 * A large corpus: the sample of real mail, repeated, in each format that `yarn build-db` reads. Each copy of a message
 * has its own id and last line, so that no copy is folded into another; the sample's own duplicates stay duplicates.
 */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough, type Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";
import { HoneError, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { readMessage } from "../../src/email/import/message.js";

const sample = join(packageRoot, "../shared/data/enron-sample");
const folder = join(packageRoot, "build/bench-mail");

export const hasSample = existsSync(sample);
/** The sample's questions whose evidence is in it. */
export const sampleQuestions = join(sample, "questions-covered.jsonl");
/** Path for a benchmark's database. */
export const benchDatabase = (name: string) => join(folder, name);

function unpack(archive: string): string {
  const target = join(folder, archive.replace(/\.tar\.gz$/, ""));
  if (existsSync(target)) return target;
  const unfinished = `${target}.unfinished`;
  mkdirSync(unfinished, { recursive: true });
  const { status, stderr } = spawnSync("tar", ["-xzf", join(sample, archive), "-C", unfinished], { encoding: "utf8" });
  if (status !== 0) throw new HoneError(`${archive} could not be unpacked: ${stderr}`);
  renameSync(unfinished, target);
  return target;
}

function filesIn(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesIn(join(path, name)));
}

/** The raw messages of the sample. */
function messages(): string[] {
  const fromMaildir = filesIn(unpack("maildir-3-owners.tar.gz")).map((path) => readFileSync(path, "latin1"));
  const fromMbox = filesIn(unpack("mbox-kaminski-and-6-others.tar.gz")).flatMap((path) =>
    readFileSync(path, "latin1")
      .split(/^From MAILER-DAEMON .*\n/m)
      .slice(1)
      .map((text) => text.replace(/^>(>*From )/gm, "$1")),
  );
  return [...fromMaildir, ...fromMbox];
}

function* copiesOf(originals: readonly string[], copies: number): Generator<Buffer> {
  for (let copy = 0; copy < copies; copy++) {
    for (const original of originals) {
      const text = original.trimEnd().replace(/^Message-ID: </m, copy === 0 ? "$&" : `$&${copy}.`);
      yield Buffer.from(`${text}\ncopy ${copy}\n`, "latin1");
    }
  }
}

async function put(output: Writable, content: string | Buffer): Promise<void> {
  if (!output.write(content)) await once(output, "drain");
}

/** Path of the n-th message in a tree of folders. */
const placeOf = (n: number) => `owner-${Math.floor(n / 5000)}/inbox/${n}.`;

/** Writers of each form: all mail into the file (or folder) `path`. */
const forms: Record<string, (mail: Iterable<Buffer>, path: string) => Promise<void>> = {
  async mbox(mail, path) {
    const output = createWriteStream(path);
    for (const message of mail) {
      const escaped = message.toString("latin1").replace(/^(>*From )/gm, ">$1");
      await put(output, Buffer.from(`From MAILER-DAEMON Sat Jan  1 00:00:00 2022\n${escaped}\n`, "latin1"));
    }
    await finished(output.end());
  },
  async "tar.gz"(mail, path) {
    const output = createWriteStream(path);
    const gzip = createGzip({ level: 6 });
    gzip.pipe(output);
    const archive = pack();
    const through = new PassThrough();
    archive.on("data", (chunk) => void through.write(chunk)).on("end", () => void through.end());
    through.pipe(gzip);
    let n = 0;
    for (const message of mail) {
      archive.entry({ name: placeOf(n++) }, message);
      if (through.writableNeedDrain) await once(through, "drain");
    }
    archive.finalize();
    await finished(output);
  },
  async jsonl(mail, path) {
    const output = createWriteStream(path);
    for (const message of mail) {
      const { messageId: message_id, fileName: file_name, ...rest } = await readMessage(message, "x");
      await put(output, `${JSON.stringify({ message_id, file_name, ...rest })}\n`);
    }
    await finished(output.end());
  },
  async folder(mail, path) {
    let n = 0;
    for (const message of mail) {
      const file = join(path, placeOf(n++));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, message);
    }
  },
};

/** Writes the corpus, unless it exists. */
export async function repeatedMail(form: string, copies: number): Promise<string> {
  const path = join(folder, `sample-x${copies}.${form}`);
  if (existsSync(path)) return path;
  const write = forms[form];
  if (!write) throw new UsageError(`${form} is no form of mail: give ${Object.keys(forms).join(", ")}`);
  mkdirSync(folder, { recursive: true });
  rmSync(`${path}.unfinished`, { recursive: true, force: true });
  await write(copiesOf(messages(), copies), `${path}.unfinished`);
  renameSync(`${path}.unfinished`, path);
  return path;
}
