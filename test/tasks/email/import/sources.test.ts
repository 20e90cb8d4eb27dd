/** Every form mail comes in. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type BasicType, parquetWriteBuffer } from "hyparquet-writer";
import { pack } from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ImportRules, Skipped } from "../../../../src/email/import/found.js";
import { parse } from "../../../../src/email/import/parse.js";
import { findSource, inSources } from "../../../../src/email/import/sources.js";
import type { Mail } from "../../../../src/email/mail.js";
import { describeSample, importedMails, maildirArchive } from "../../../support/enron-sample.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-import-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const message = (id: number | string, body = `body ${id}`) =>
  `Message-ID: <${id}@x>\nFrom: a@x.org\nTo: b@x.org\nSubject: s${id}\n\n${body}\n`;
const mbox = (...messages: string[]) =>
  messages.map((text) => `From a@x.org Mon Apr 18 14:19:09 2022\n${text}\n`).join("");

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}

async function tar(files: Readonly<Record<string, string | Buffer>>): Promise<Buffer> {
  const archive = pack();
  for (const [name, content] of Object.entries(files)) archive.entry({ name }, content);
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function read(...paths: string[]) {
  return readBy({ maxBody: 0, maxRecipients: 0 }, ...paths);
}

async function readBy(rules: ImportRules, ...paths: string[]) {
  const sources = [];
  for (const path of paths) sources.push(await findSource(path));
  const progress = { done: 0, total: 0 };
  const mails: Mail[] = [];
  const skipped: Skipped[] = [];
  for await (const found of inSources(sources, progress)) {
    for (const one of found) {
      const mail = await parse(one, rules);
      if ("reason" in mail) skipped.push(mail);
      else mails.push(mail);
    }
  }
  expect(progress.done).toBe(progress.total);
  return { ids: mails.map(({ messageId }) => messageId), mails, skipped };
}

test("a maildir folder, whatever its files are called; what is no mail is counted", async () => {
  write("maildir/inbox/1.", message(1));
  write("maildir/inbox/2_", message(2).replaceAll("\n", "\r\n"));
  write("maildir/sent/cur/1069.host:2,S", message(3));
  write("maildir/picture.png", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2]));
  write("maildir/void", "");
  symlinkSync(join(folder, "maildir/inbox"), join(folder, "maildir/inbox/circle"));
  symlinkSync(join(folder, "nowhere"), join(folder, "maildir/broken"));
  const { ids, mails, skipped } = await read(join(folder, "maildir"));
  expect(ids).toEqual(["<1@x>", "<2@x>", "<3@x>"]);
  expect(mails.map(({ fileName }) => fileName.slice(folder.length))).toEqual([
    "/maildir/inbox/1.",
    "/maildir/inbox/2_",
    "/maildir/sent/cur/1069.host:2,S",
  ]);
  expect(skipped.map(({ reason, name }) => [name.slice(folder.length), reason]).sort()).toEqual([
    ["/maildir/broken", "unreadable"],
    ["/maildir/inbox/circle", "unreadable"],
    ["/maildir/picture.png", "not_mail"],
    ["/maildir/void", "empty"],
  ]);
});

test("a folder of mboxes, archives and lines of JSON", async () => {
  write("mixed/a.mbox", mbox(message(1), message(2)));
  write("mixed/b", await tar({ "c/1": message(3) }));
  write("mixed/c.jsonl", `${JSON.stringify({ message_id: "<4@x>", body: "x" })}\n`);
  write("mixed/d.txt", message(5));
  expect((await read(join(folder, "mixed"))).ids.sort()).toEqual(["<1@x>", "<2@x>", "<3@x>", "<4@x>", "<5@x>"]);
});

test("tar and tar.gz of single mails and of mboxes, with long names; the kinds in it are known by content", async () => {
  const long = `${"folder-of-some-length/".repeat(12)}ünïcode`;
  const archive = await tar({
    "inbox/1_": message(1),
    [long]: message(2),
    "all.eml": mbox(message(3), message(4, ">From here\n")),
    "rows.bin": `${JSON.stringify({ message_id: "<5@x>", body: "x" })}\n`,
    "logo.gif": "GIF89a......",
    "inner.tar.gz": gzipSync("x"),
  });
  for (const path of [write("plain.dat", archive), write("packed.dat", gzipSync(archive))]) {
    const { ids, mails, skipped } = await read(path);
    expect(ids.toSorted()).toEqual(["<1@x>", "<2@x>", "<3@x>", "<4@x>", "<5@x>"]);
    expect(mails.find(({ messageId }) => messageId === "<2@x>")?.fileName).toBe(`${path}/${long}`);
    expect(mails.find(({ messageId }) => messageId === "<4@x>")?.body).toBe("From here");
    expect(skipped.map(({ reason }) => reason)).toEqual(["not_mail", "not_mail"]);
  }
});

test("an mbox, gzipped or not, and a single message", async () => {
  const text = mbox(message(1), message(2));
  for (const path of [write("x", text), write("x.gz", gzipSync(text))]) {
    expect((await read(path)).ids).toEqual(["<1@x>", "<2@x>"]);
  }
  expect((await read(write("one.eml", message(1)))).ids).toEqual(["<1@x>"]);
});

const rows = [
  {
    message_id: "<1@x>",
    subject: "Budget\n\t2002",
    from: "Ann@X.org",
    to: ["b@x.org", "", "C <c@x.org>"],
    cc: ["d@x.org"],
    bcc: ["d@x.org"],
    date: new Date("2001-11-27T08:22:30Z"),
    body: "It is 5.\r\n",
    file_name: "a/1.",
  },
  {
    message_id: "<2@x>",
    subject: null,
    from: null,
    to: [],
    cc: [],
    bcc: ["e@x.org"],
    date: null,
    body: "x",
    file_name: null,
  },
];
const expected = [
  {
    messageId: "<1@x>",
    subject: "Budget 2002",
    from: "ann@x.org",
    to: ["b@x.org", "c@x.org"],
    cc: ["d@x.org"],
    bcc: [],
    date: "2001-11-27 08:22:30",
    body: "It is 5.",
    fileName: "a/1.",
  },
  { messageId: "<2@x>", subject: "", from: "", to: [], cc: [], bcc: ["e@x.org"], date: undefined, body: "x" },
];

test("JSON lines in the form of corbt/enron-emails; lines of another form are counted", async () => {
  const lines = [...rows.map((row) => JSON.stringify(row)), "", '{"question": "no mail"}', '{"body": 1}', '{"broken'];
  const { mails, skipped } = await read(write("mail.jsonl", lines.join("\n")));
  expect(mails).toMatchObject(expected);
  expect(skipped.map(({ reason }) => reason)).toEqual(["bad_row", "bad_row", "bad_row"]);
  const odd = { from: "a@x.org", to: "b@x.org, c@x.org", date: 1006849350, body: "x" };
  const [mail] = (await read(write("odd.jsonl", JSON.stringify(odd)))).mails;
  expect(mail).toMatchObject({ to: ["b@x.org", "c@x.org"], date: "2001-11-27 08:22:30" });
});

test("Parquet in the form of corbt/enron-emails, in row groups of any size", async () => {
  // More than are read at a time.
  const ROWS = 12_000;
  const column = (name: keyof (typeof rows)[number], type: BasicType | undefined) => ({
    name,
    data: Array.from({ length: ROWS }, (_, i) => {
      const value = rows[i % 2]?.[name];
      return name === "message_id" ? `<${i}@x>` : value;
    }),
    ...(type ? { type } : {}),
  });
  const columnData = [
    column("message_id", "STRING"),
    column("subject", "STRING"),
    column("from", "STRING"),
    column("to", undefined),
    column("date", "TIMESTAMP"),
    column("body", "STRING"),
    column("file_name", "STRING"),
  ];
  for (const rowGroupSize of [ROWS, 700]) {
    const path = write("mail.parquet", new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize })));
    const { mails, skipped } = await read(path);
    expect(skipped).toEqual([]);
    expect(mails.map(({ messageId }) => messageId)).toEqual(Array.from({ length: ROWS }, (_, i) => `<${i}@x>`));
    const { cc: _, ...first } = expected[0] as Mail;
    expect(mails[ROWS - 2]).toEqual({ ...first, cc: [], messageId: `<${ROWS - 2}@x>` });
    expect(mails[ROWS - 1]).toMatchObject({ subject: "", from: "", to: [], date: undefined, body: "x" });
  }
});

test("rules leave out mail with long bodies or many recipients, by name", async () => {
  const to = Array.from({ length: 31 }, (_, i) => `p${i}@x.org`).join(", ");
  const path = write(
    "rules",
    mbox(message(1, "x".repeat(5001)), message(2, "x".repeat(5000)), message(3).replace("b@x.org", to)),
  );
  const { ids, skipped } = await readBy({ maxBody: 5000, maxRecipients: 30 }, path);
  expect(ids).toEqual(["<2@x>"]);
  expect(skipped.map(({ reason }) => reason)).toEqual(["body_too_long", "too_many_recipients"]);
});

test("what cannot be read is told in one line", async () => {
  const archive = gzipSync(await tar({ "1": message(1), "2": message(2, "x".repeat(100_000)) }));
  const damaged = Buffer.from(archive);
  damaged.fill(0x55, 60, 90);
  const plain = await tar({ "1": message(1, "x".repeat(5000)) });
  const columnData = [{ name: "question", data: ["who?"] }];
  const cases: [string, RegExp][] = [
    [join(folder, "nothing"), /nothing is not there$/],
    ["/dev/null", /neither a file nor a folder$/],
    [write("logo.png", Buffer.from([0x89, 0x50, 0x4e, 0x47])), /logo\.png holds no mail: give a maildir folder/],
    [write("cut.tar.gz", archive.subarray(0, archive.length - 40)), /cut\.tar\.gz ends in the middle/],
    [write("bad.tar.gz", damaged), /bad\.tar\.gz is damaged|bad\.tar\.gz could not be read/],
    [write("cut.tar", plain.subarray(0, 3000)), /cut\.tar could not be read: Unexpected end of data/],
    [write("x.zip", "PK\u0003\u0004...."), /x\.zip holds no mail: give a maildir folder/],
    [
      write("q.parquet", new Uint8Array(parquetWriteBuffer({ columnData }))),
      /q\.parquet holds no mail: give questions/,
    ],
    [write("cut.parquet", "PAR1 and then nothing"), /cut\.parquet is no whole Parquet file/],
  ];
  for (const [path, line] of cases) {
    const error = await read(path).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ name: "HoneError", message: expect.stringMatching(line) });
    expect((error as Error).message).not.toContain("\n");
  }
});

describeSample("real mail through other forms", () => {
  test("JSON lines and Parquet of a maildir give the same mails as the maildir", async () => {
    const mails = (await importedMails(maildirArchive, 1000)).slice(0, 1000);
    const asRows = mails.map(({ messageId, date, fileName, from, ...rest }) => ({
      message_id: messageId,
      from,
      date: date ? new Date(`${date.replace(" ", "T")}Z`) : null,
      file_name: fileName,
      ...rest,
    }));
    const lines = write("real.jsonl", asRows.map((row) => JSON.stringify(row)).join("\n"));
    expect((await read(lines)).mails).toEqual(mails);
    const data = (name: keyof (typeof asRows)[number]) => asRows.map((row) => row[name]);
    const columnData = [
      ...(["message_id", "subject", "from", "body", "file_name"] as const).map((name) => ({
        name,
        data: data(name),
        type: "STRING" as const,
      })),
      ...(["to", "cc", "bcc"] as const).map((name) => ({ name, data: data(name) })),
      { name: "date", data: data("date"), type: "TIMESTAMP" as const },
    ];
    const parquet = write("real.parquet", new Uint8Array(parquetWriteBuffer({ columnData })));
    expect((await read(parquet)).mails).toEqual(mails);
  });
});
