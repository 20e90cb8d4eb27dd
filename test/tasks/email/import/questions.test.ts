import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { questionReader } from "../../../../src/email/import/questions.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-questions-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const question = {
  id: 7,
  question: "How much is it?",
  answer: "5",
  message_ids: ["<1@x>"],
  how_realistic: 0.5,
  inbox_address: "Ann@X.org",
  query_date: "2001-05-10",
  split: "test",
};
const lines = (...rows: object[]) => rows.map((row) => JSON.stringify(row)).join("\n");
const known = {
  storedId: (id: string) => (/^<[12]@x>$/.test(id) ? id : undefined),
  isSeenBy: () => true,
};
const all = { oneEvidence: false, dropKnownBad: false };

test("a question becomes a scenario", async () => {
  const reader = questionReader(all);
  const path = write("q", lines(question, { ...question, id: "own-1", split: undefined, how_realistic: undefined }));
  expect(await reader.read(path, known)).toEqual([
    {
      id: "enron-7",
      split: "test",
      question: "How much is it?",
      answer: "5",
      message_ids: ["<1@x>"],
      inbox_address: "ann@x.org",
      query_date: "2001-05-10",
      how_realistic: 0.5,
    },
    {
      id: "own-1",
      split: "train",
      question: "How much is it?",
      answer: "5",
      message_ids: ["<1@x>"],
      inbox_address: "ann@x.org",
      query_date: "2001-05-10",
    },
  ]);
});

test("every question that is left out is counted by its reason", async () => {
  const rows = [
    question,
    { ...question, id: 49 },
    { ...question, id: 8, message_ids: ["<1@x>", "<2@x>"] },
    { ...question, id: 9, message_ids: ["<3@x>"] },
    { ...question, id: 10, message_ids: [] },
    { ...question, id: 11, query_date: "soon" },
  ];
  const path = write("rules", `${lines(...rows)}\n{"broken`);
  const art = questionReader({ oneEvidence: true, dropKnownBad: true });
  expect((await art.read(path, known)).map(({ id }) => id)).toEqual(["enron-7"]);
  expect(art.counts).toEqual({
    read: 7,
    kept: 1,
    dropped: { known_bad: 1, several_evidence: 1, missing_evidence: 1, bad_row: 3 },
  });
  const lax = questionReader(all);
  expect((await lax.read(path, known)).map(({ id }) => id)).toEqual(["enron-7", "enron-49", "enron-8"]);
  expect(lax.counts).toEqual({ read: 7, kept: 3, dropped: { missing_evidence: 1, bad_row: 3 } });
});

test("the database's own form of an id takes the place of the question's", async () => {
  const [scenario] = await questionReader(all).read(write("ids", lines(question)), {
    ...known,
    storedId: (id) => id.replace(/[<>]/g, ""),
  });
  expect(scenario?.message_ids).toEqual(["1@x"]);
});

test("Parquet, with the split in the file's name; gzipped lines", async () => {
  const { split: _, ...rest } = question;
  const columnData = [
    ...Object.entries(rest)
      .filter(([name]) => name !== "id")
      .map(([name, value]) => ({ name, data: [value] })),
    { name: "id", data: [7n], type: "INT64" as const },
  ];
  const path = write("test-00000-of-00001.parquet", new Uint8Array(parquetWriteBuffer({ columnData })));
  const expected = [{ id: "enron-7", split: "test", message_ids: ["<1@x>"], query_date: "2001-05-10" }];
  expect(await questionReader(all).read(path, known)).toMatchObject(expected);
  const packed = write("q.gz", gzipSync(lines(question)));
  expect(await questionReader(all).read(packed, known)).toMatchObject(expected);
});

test("files that hold no questions are refused in one line", async () => {
  const read = (path: string) => questionReader(all).read(path, known);
  await expect(read(join(folder, "none"))).rejects.toThrow(/none is not there$/);
  await expect(read(write("a.txt", "Hello"))).rejects.toThrow(/a\.txt holds no questions: give JSON lines or Parquet$/);
  await expect(read(write("mail", lines({ message_id: "<1@x>", body: "x" })))).rejects.toThrow(
    /mail holds no questions: rows need id, question, answer/,
  );
});
