/**
 * A large mailbox made of the sample of real mail, repeated: one mbox file in which each copy of a message has an id and
 * a last line of its own, so that no copy is folded into another; the sample's own duplicates stay duplicates.
 */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";

const sample = join(packageRoot, "../shared/data/enron-sample");
const folder = join(packageRoot, "build/bench-mail");

export const hasSample = existsSync(sample);
/** The sample's questions whose evidence is in it. */
export const sampleQuestions = join(sample, "questions-covered.jsonl");
/** Where the benchmark may put a database. */
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

/** The raw messages of the sample, as they would stand in an mbox. */
function messages(): Buffer[] {
  const fromMaildir = filesIn(unpack("maildir-3-owners.tar.gz")).map((path) =>
    readFileSync(path, "latin1").replace(/^(>*From )/gm, ">$1"),
  );
  const fromMbox = filesIn(unpack("mbox-kaminski-and-6-others.tar.gz")).flatMap((path) =>
    readFileSync(path, "latin1")
      .split(/^From MAILER-DAEMON .*\n/m)
      .slice(1),
  );
  return [...fromMaildir, ...fromMbox].map((text) => Buffer.from(text, "latin1"));
}

/** Writes the mailbox, or finds it. */
export async function repeatedMailbox(copies: number): Promise<string> {
  const file = join(folder, `sample-x${copies}.mbox`);
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  const originals = messages();
  const stream = createWriteStream(`${file}.unfinished`);
  for (let copy = 0; copy < copies; copy++) {
    for (const original of originals) {
      const text = original
        .toString("latin1")
        .trimEnd()
        .replace(/^Message-ID: </m, copy === 0 ? "$&" : `$&${copy}.`);
      const isRoom = stream.write(
        Buffer.from(`From MAILER-DAEMON Sat Jan  1 00:00:00 2022\n${text}\ncopy ${copy}\n\n`, "latin1"),
      );
      if (!isRoom) await once(stream, "drain");
    }
  }
  stream.end();
  await finished(stream);
  renameSync(`${file}.unfinished`, file);
  return file;
}
