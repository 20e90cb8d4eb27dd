/** `build-db` as users run it: a process of its own. */
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterEach, beforeEach, expect, test } from "vitest";
import { packageRoot } from "../../../../src/core/util/paths.js";
import { coveredQuestions, describeSample, maildirArchive, mboxArchive } from "../../../support/enron-sample.js";
import { HubServer } from "../../../support/hub-server.js";

const cli = join(packageRoot, "dist/src/cli.js");

/** Root may do everything: tests of permissions run as somebody else, who perhaps may not even read this checkout. */
const nobody = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-build-db-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

interface RunOptions {
  env?: Record<string, string>;
  asNobody?: boolean;
  command?: [string, ...string[]];
}

function start(args: readonly string[], { env = {}, asNobody = false, command = [process.execPath] }: RunOptions = {}) {
  const [program, ...before] = command;
  const child = spawn(program, [...before, cli, "build-db", ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    ...(asNobody ? nobody : {}),
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

const run = (args: readonly string[], options?: RunOptions) => start(args, options).ended;
const summaryOf = ({ stdout }: { stdout: string }) => JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
const synthetic = ["--mailboxes", "5", "--db", "mail.db"];

test("without arguments: the synthetic mailbox, in the home folder", async () => {
  const { code, stdout, stderr } = await run(["--mailboxes", "5"], { env: { HONE_HOME: "state" } });
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^state\/mail\.db: [\d,]+ mails in .* s/);
  expect(stdout).toMatch(/scenarios {3}40 train, 10 test/);
  expect(readdirSync(join(folder, "state"))).toEqual(["mail.db"]);
});

test("--json: the summary is the last line of stdout, people's text is on stderr", async () => {
  const result = await run([...synthetic, "--json"]);
  expect(Object.keys(summaryOf(result)).slice(0, 7)).toEqual([
    "read",
    "imported",
    "duplicates",
    "skipped",
    "scenarios",
    "seconds",
    "db",
  ]);
  expect(result.stdout.trimEnd().split("\n")).toHaveLength(1);
  expect(result.stderr).toContain("mail.db: ");
});

test("--hf: both data sets from the endpoint, ART-E's rules on; offline it works again", async () => {
  const mails = Array.from({ length: 50 }, (_, i) => ({
    message_id: `<${i}@x>`,
    subject: `s${i}`,
    from: "a@x.org",
    to: i === 1 ? Array.from({ length: 31 }, (_, n) => `p${n}@x.org`) : ["b@x.org"],
    cc: ["c@x.org"],
    bcc: ["c@x.org"],
    date: new Date(Date.UTC(2001, 0, 1 + i)),
    body: i === 0 ? "x".repeat(5001) : `body ${i}`,
    file_name: `a/${i}.`,
  }));
  const questions = [49, 7, 8, 9].map((id) => ({
    id: BigInt(id),
    question: "q",
    answer: "a",
    message_ids: id === 8 ? ["<5@x>", "<6@x>"] : [id === 9 ? "<0@x>" : "<5@x>"],
    how_realistic: 0.5,
    inbox_address: "b@x.org",
    query_date: "2001-05-10",
  }));
  const parquet = (rows: readonly object[]) => {
    const names = Object.keys(rows[0] ?? {});
    const columnData = names.map((name) => ({ name, data: rows.map((row) => (row as Record<string, unknown>)[name]) }));
    return Buffer.from(parquetWriteBuffer({ columnData }));
  };
  const server = new HubServer({
    "corbt/enron-emails": { "data/train-00000-of-00001.parquet": parquet(mails) },
    "corbt/enron_emails_sample_questions": {
      "data/train-00000-of-00001.parquet": parquet(questions.slice(1)),
      "data/test-00000-of-00001.parquet": parquet(questions.slice(0, 1)),
    },
  });
  await server.start();
  try {
    const env = { HF_ENDPOINT: server.endpoint, HONE_HOME: "state" };
    const online = await run(["--hf", "--json"], { env });
    expect(online.code).toBe(0);
    expect(summaryOf(online)).toMatchObject({
      read: 50,
      imported: 48,
      duplicates: 0,
      skipped: { body_too_long: 1, too_many_recipients: 1 },
      questions: { read: 4, kept: 1, dropped: { known_bad: 1, several_evidence: 1, missing_evidence: 1 } },
      scenarios: { train: 1, test: 0 },
      db: "state/mail.db",
    });
    server.requests.length = 0;
    const offline = await run(["--hf", "--json", "--max-body", "0", "--max-recipients", "0"], {
      env: { ...env, HF_HUB_OFFLINE: "1" },
    });
    expect(summaryOf(offline)).toMatchObject({ imported: 50, questions: { kept: 2 } });
    expect(server.requests).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("Ctrl-C in the middle: one line, exit code 1, the old database as it was, no litter", async () => {
  await run(synthetic);
  const before = readFileSync(join(folder, "mail.db"));
  const { child, ended } = start(["--mailboxes", "20000", "--db", "mail.db"]);
  while (!readdirSync(folder).some((name) => name.includes("building"))) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  child.kill("SIGINT");
  const { code, stderr } = await ended;
  expect([code, stderr.trim()]).toEqual([1, "hone: interrupted"]);
  expect(readdirSync(folder)).toEqual(["mail.db"]);
  expect(readFileSync(join(folder, "mail.db")).equals(before)).toBe(true);
});

test("what a killed build left is gone after the next", async () => {
  const { child, ended } = start(["--mailboxes", "20000", "--db", "mail.db"]);
  while (!readdirSync(folder).some((name) => name.includes("building"))) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  child.kill("SIGKILL");
  await ended;
  expect(readdirSync(folder)).not.toEqual([]);
  await run(synthetic);
  expect(readdirSync(folder)).toEqual(["mail.db"]);
});

test("a disk that is full: one line, the old database as it was", async () => {
  await run(synthetic);
  const before = readFileSync(join(folder, "mail.db"));
  // Files of at most 512 KiB: to SQLite that is what a full disk is.
  const command: [string, ...string[]] = ["bash", "-c", 'ulimit -f 512; exec "$@"', "bash", process.execPath];
  const { code, stderr } = await run(["--mailboxes", "200", "--db", "mail.db"], { command });
  expect(code).toBe(1);
  expect(stderr.trim()).toMatch(/^hone: the mail database mail\.db cannot be written: [^\n]*(full|I\/O error)[^\n]*$/);
  expect(readdirSync(folder)).toEqual(["mail.db"]);
  expect(readFileSync(join(folder, "mail.db")).equals(before)).toBe(true);
});

const readable = spawnSync(process.execPath, [cli, "--help"], { cwd: "/", ...nobody }).status === 0;
const lack = readable ? "" : " (skipped: no other user may read this checkout)";

const closed = `folders without permission: mail that may not be read, a target that may not be written${lack}`;
test.runIf(readable)(closed, async () => {
  const asNobody = { asNobody: true };
  chmodSync(folder, 0o755);
  for (const name of ["mine", "sealed", "open", "out"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "sealed/1"), "From: a@x.org\n\nx");
  writeFileSync(join(folder, "open/1"), "From: a@x.org\n\nx");
  mkdirSync(join(folder, "open/sealed"));
  chmodSync(join(folder, "open/sealed"), 0o000);
  chmodSync(join(folder, "mine"), 0o555);
  chmodSync(join(folder, "sealed"), 0o000);
  const line = async (...args: string[]) => {
    const { code, stderr } = await run(args, asNobody);
    expect(code).toBe(1);
    return stderr;
  };
  expect(await line("--from", "sealed", "--db", "mine/mail.db")).toBe(
    "hone: sealed may not be read: permission denied\n",
  );
  expect(await line("--mailboxes", "5", "--db", "mine/mail.db")).toMatch(
    /^hone: the mail database mine\/mail\.db cannot be written: [^\n]+\n$/,
  );
  expect(readdirSync(join(folder, "mine"))).toEqual([]);

  // One closed folder among others costs only itself.
  chmodSync(join(folder, "out"), 0o777);
  expect(summaryOf(await run(["--from", "open", "--db", "out/mail.db", "--json"], asNobody))).toMatchObject({
    imported: 1,
    skipped: { unreadable: 1 },
    examples: { unreadable: "open/sealed" },
  });
});

test.each([
  [["--hf", "--from", "x"], /--hf and --from exclude each other/],
  [["--questions", "x"], /--questions needs the mail they are about/],
  [["--max-body", "-1"], /--max-body: "-1" is not accepted/],
])("%s is wrong usage", async (args, line) => {
  const { code, stderr } = await run(args);
  expect(code).toBe(2);
  expect(stderr).toMatch(line);
  expect(stderr.trim()).not.toContain("\n");
});

describeSample("the real sample in one command", () => {
  test("20,075 messages, 125 scenarios", async () => {
    const result = await run([
      "--from",
      maildirArchive,
      mboxArchive,
      "--questions",
      coveredQuestions,
      "--json",
      "--db",
      "mail.db",
    ]);
    expect(summaryOf(result)).toMatchObject({
      read: 20_075,
      imported: 14_958,
      duplicates: 5117,
      skipped: {},
      scenarios: { train: 107, test: 18 },
      questions: { read: 125, kept: 125, dropped: {} },
    });
    expect(existsSync(join(folder, "mail.db"))).toBe(true);
  });
});

test("the example of the help is a command that parses", () => {
  const help = spawnSync(process.execPath, [cli, "build-db", "--help"], { encoding: "utf8" });
  expect(help.stdout).toContain("yarn build-db --from maildir/ --questions questions.jsonl");
});
