/** What documents and a database give to ask about, and what is left of a run that is broken off. */
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { Cap } from "../../src/judge/budget.js";
import { JudgeClient } from "../../src/judge/client.js";
import { Judge } from "../../src/judge/judge.js";
import { droppedFileOf, readScenarioFile, withReviews, writeScenarioFile } from "../../src/scenarios/file.js";
import { type Piece, splitPieces } from "../../src/scenarios/pieces.js";
import { documentSource } from "../../src/scenarios/sources/documents.js";
import { sqlSource } from "../../src/scenarios/sources/sql.js";
import { clientSettings, memoryCache, never } from "../judge/support/judging.js";
import { generated, judgeAt } from "./support/measure.js";
import { startModel } from "./support/model.js";

const temporary = () => mkdtempSync(join(tmpdir(), "hone-scenarios-"));
const sentence = (i: number) =>
  `The keeper of the lighthouse number ${i} is called Keeper${i}, as everybody on the island knows.`;

it("documents: text of all folders, in parts of whole paragraphs; HTML as text; nothing binary, hidden or linked", async () => {
  const folder = temporary();
  mkdirSync(join(folder, "deep/er"), { recursive: true });
  mkdirSync(join(folder, ".git"));
  writeFileSync(join(folder, "a.md"), sentence(1));
  writeFileSync(join(folder, "deep/er/b.txt"), Array.from({ length: 200 }, (_, i) => sentence(i)).join("\n\n"));
  writeFileSync(
    join(folder, "deep/c.html"),
    `<html><head><style>x{}</style></head><body><p>${sentence(2)}</p></body></html>`,
  );
  writeFileSync(join(folder, "d.png"), Buffer.from([137, 80, 78, 71, 0, 1]));
  writeFileSync(join(folder, "latin.txt"), Buffer.from([0xe9, 0xe8, ...Buffer.from(sentence(3))]));
  writeFileSync(join(folder, "short.txt"), "too short");
  writeFileSync(join(folder, ".git/e.txt"), sentence(4));
  const outside = join(temporary(), "secret.txt");
  writeFileSync(outside, sentence(5));
  symlinkSync(outside, join(folder, "link.txt"));
  const { pieces, skipped } = await documentSource(folder).explore(1000, 1, never);
  expect(skipped).toEqual({ not_text: 2, too_short: 1 });
  expect(new Set(pieces.map(({ entity }) => entity))).toEqual(new Set(["a.md", "deep/er/b.txt", "deep/c.html"]));
  expect(pieces.find(({ id }) => id === "deep/c.html")?.text).toBe(sentence(2));
  const parts = pieces.filter(({ entity }) => entity === "deep/er/b.txt").map(({ text }) => text);
  expect(parts.length).toBeGreaterThan(2);
  expect(parts.join("\n\n").split("\n\n")).toEqual(Array.from({ length: 200 }, (_, i) => sentence(i)));
  expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(6000);
});

it("sql: rows with what their foreign keys name, of every kind of table; the file is not written to", async () => {
  const file = join(temporary(), "shop.db");
  const db = new Database(file);
  db.exec(`
    CREATE TABLE makers (id INTEGER PRIMARY KEY, name TEXT, town TEXT);
    CREATE TABLE "odd ""name" (code TEXT PRIMARY KEY, made_by INTEGER REFERENCES makers, picture BLOB, price REAL) WITHOUT ROWID;
    CREATE VIEW dear AS SELECT * FROM makers;
    INSERT INTO makers VALUES (1, 'Nimbus Brothers of the hill', 'Upper Larch'), (2, 'Onyx', NULL);
    INSERT INTO "odd ""name" VALUES ('kettle-7', 1, x'0001', 12.5), ('a kettle of nobody, with a long name', NULL, NULL, 3);
  `);
  db.close();
  const before = readFileSync(file);
  const { pieces, skipped } = await sqlSource(file).explore(100, 1, never);
  expect(readFileSync(file).equals(before)).toBe(true);
  const texts = new Map(pieces.map(({ id, text }) => [id, text]));
  expect(texts.get('odd "name[code=kettle-7]')).toBe(
    'table: odd "name\ncode: kettle-7\nmade_by: 1\nprice: 12.5\nits made_by, of table makers:\n  id: 1\n  name: Nimbus Brothers of the hill\n  town: Upper Larch',
  );
  expect([...texts.keys()].sort()).toEqual([
    "makers[id=1]",
    'odd "name[code=a kettle of nobody, with a long name]',
    'odd "name[code=kettle-7]',
  ]);
  expect(skipped).toEqual({ too_short: 1 });
  const text = join(temporary(), "no.db");
  writeFileSync(text, "this is no database, though it is long enough to look like one".repeat(20));
  await expect(sqlSource(text).explore(10, 1, never)).rejects.toThrow(
    /^--sql .*no\.db: it cannot be read as an SQLite database/,
  );
});

it("sql: what a file says is not run, what a key names need not be there, and values are read as they are", async () => {
  const file = join(temporary(), "odd.db");
  const db = new Database(file);
  db.pragma("foreign_keys = OFF");
  const row = (link: string) => `(9007199254740993, '${sentence(1)}', ${link})`;
  db.exec(`
    CREATE VIEW endless(a) AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
    CREATE TABLE keyless (a TEXT);
    CREATE TABLE to_view (id INTEGER PRIMARY KEY, text TEXT, link REFERENCES endless(a));
    CREATE TABLE to_nothing (id INTEGER PRIMARY KEY, text TEXT, link REFERENCES gone(a));
    CREATE TABLE to_no_key (id INTEGER PRIMARY KEY, text TEXT, link REFERENCES keyless);
    CREATE TABLE to_no_column (id INTEGER PRIMARY KEY, text TEXT, link REFERENCES keyless(b));
    CREATE TABLE other_case (id INTEGER PRIMARY KEY, text TEXT, link REFERENCES TO_VIEW(ID));
    CREATE TABLE "made" (id INTEGER PRIMARY KEY, "__proto__" TEXT, same AS (id || 1), file BLOB);
    INSERT INTO keyless VALUES ('3');
    INSERT INTO to_view VALUES ${row("-1")};
    INSERT INTO to_nothing VALUES ${row("3")};
    INSERT INTO to_no_key VALUES ${row("3")};
    INSERT INTO to_no_column VALUES ${row("3")};
    INSERT INTO other_case VALUES ${row("9007199254740993")};
    INSERT INTO made VALUES (0, '${sentence(2)}', zeroblob(10000));
  `);
  db.close();
  const { pieces } = await sqlSource(file).explore(100, 1, never);
  const texts = new Map(pieces.map(({ entity, text }) => [entity, text]));
  const own = (table: string, link: string) =>
    `table: ${table}\nid: 9007199254740993\ntext: ${sentence(1)}\nlink: ${link}`;
  for (const [table, link] of [
    ["to_view", "-1"],
    ["to_nothing", "3"],
    ["to_no_key", "3"],
    ["to_no_column", "3"],
  ] as const)
    expect(texts.get(`${table}[id=9007199254740993]`)).toBe(own(table, link));
  expect(texts.get("other_case[id=9007199254740993]")).toMatch(
    /\nits link, of table to_view:\n {2}id: 9007199254740993\n/,
  );
  expect(texts.get("made[id=0]")).toBe(`table: made\nid: 0\n__proto__: ${sentence(2)}`);
});

it("sql: a folder is no file, and an interruption is heard between rows", async () => {
  expect(() => sqlSource(temporary())).toThrow(/^--sql .*: it is no file$/);
  const file = join(temporary(), "long.db");
  const db = new Database(file);
  db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, words TEXT)");
  const insert = db.prepare("INSERT INTO t VALUES (?, ?)");
  for (let i = 0; i < 20; i++) insert.run(i, sentence(i));
  db.close();
  const interrupted = new AbortController();
  setImmediate(() => interrupted.abort(new Error("interrupted")));
  await expect(sqlSource(file).explore(20, 1, interrupted.signal)).rejects.toThrow("interrupted");
});

it("sql: of a long table rows from all over, the same for the same seed", async () => {
  const file = join(temporary(), "long.db");
  const db = new Database(file);
  db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, words TEXT)");
  const insert = db.prepare("INSERT INTO t VALUES (?, ?)");
  db.transaction(() => {
    for (let i = 0; i < 5000; i++) insert.run(i, sentence(i));
  })();
  db.close();
  const idsOf = async (seed: number) => (await sqlSource(file).explore(50, seed, never)).pieces.map(({ id }) => id);
  const ids = await idsOf(1);
  expect(ids).toHaveLength(50);
  expect(await idsOf(1)).toEqual(ids);
  expect(await idsOf(2)).not.toEqual(ids);
  const rows = ids.map((id) => Number(/id=(\d+)/.exec(id)?.[1])).sort((a, b) => a - b);
  expect([rows[0] as number, rows.at(-1) as number]).toEqual([
    expect.toSatisfy((n) => n < 100),
    expect.toSatisfy((n) => n > 4800),
  ]);
});

const piece = (id: string, text: string, entity = id): Piece => ({
  id,
  title: id,
  text,
  entity,
  known: "",
  fields: {},
});

it("what was copied is on one side of the split, a form letter's frame does not join its letters", () => {
  const letter = (i: number) =>
    `Dear customer number ${i}, we thank you for the order that you placed with our shop this week. ${sentence(i)}`;
  const copied = `Look what I got. > ${sentence(900)} I hope that you can make something of it, since I cannot at all.`;
  const pieces = [
    ...Array.from({ length: 60 }, (_, i) => piece(`letter ${i}`, letter(i))),
    piece("original", `${sentence(900)} I hope that you can make something of it, since I cannot at all.`),
    piece("copy", copied),
    piece("again", copied),
    piece("second part", "quite another text of one and the same document", "original"),
  ];
  const split = splitPieces(pieces, 0.3, 1);
  const [first, ...others] = split.filter(({ id }) => ["original", "copy", "second part"].includes(id));
  expect(others.map(({ entity }) => entity)).toEqual([first?.entity, first?.entity]);
  // The same text a second time is nothing new.
  expect(split.some(({ id }) => id === "again")).toBe(false);
  const letters = split.filter(({ id }) => id.startsWith("letter"));
  expect(new Set(letters.map(({ entity }) => entity)).size).toBe(60);
  const tests = letters.filter(({ split: side }) => side === "test").length;
  expect(tests).toBeGreaterThan(8);
  expect(tests).toBeLessThan(30);
});

/** A model that asks one question of each document, so often. */
const lighthouses = (times = 1) =>
  startModel({
    write: (text) => {
      const [, i] = /number (\d+) is called/.exec(text) ?? [];
      const question = `Who keeps the lighthouse number ${i}?`;
      return Array.from({ length: times }, () => ({
        question,
        answer: `Keeper${i}`,
        quote: `is called Keeper${i}`,
      }));
    },
    factOf: (question) => {
      const [, i] = /number (\d+)/.exec(question) ?? [];
      return { answer: `Keeper${i}`, isIn: (text) => text.includes(`number ${i} is`) };
    },
  });

function island(count: number): string {
  const folder = temporary();
  for (let i = 0; i < count; i++) writeFileSync(join(folder, `${i}.txt`), sentence(i));
  return folder;
}

it("a question that the model writes twice of one document is kept once", async () => {
  const model = await lighthouses(2);
  const out = join(temporary(), "s.jsonl");
  try {
    const { kept, summary } = await generated(documentSource(island(4)), judgeAt(model.url, memoryCache()), out);
    expect(new Set(kept.map(({ question }) => question)).size).toBe(4);
    expect(summary.train + summary.test).toBe(4);
    expect(readScenarioFile(out)).toEqual({ kept, dropped: [] });
  } finally {
    await model.close();
  }
});

it("a run that stops at its cost cap keeps what it has, and goes on to the same file without asking anything twice", async () => {
  const folder = island(40);
  const model = await lighthouses();
  const out = join(temporary(), "s.jsonl");
  try {
    const cache = memoryCache();
    const price = { prompt: 1, completion: 1 };
    const capped = new Judge(
      new JudgeClient({ ...clientSettings, url: model.url, price, cap: new Cap(0.02) }),
      cache,
      "scripted",
    );
    await expect(generated(documentSource(folder), capped, out)).rejects.toThrow(/judge-max-cost/);
    const first = readScenarioFile(out).kept.map(({ id }) => id);
    expect(first.length).toBeGreaterThan(0);
    expect(first.length).toBeLessThan(35);
    const asked = model.requests.length;
    const { kept, summary } = await generated(documentSource(folder), judgeAt(model.url, cache), out);
    expect(kept.slice(0, first.length).map(({ id }) => id)).toEqual(first);
    expect(summary.pieces).toBe(40);
    // Every request of the first run was answered, but for those under way at its end.
    const bodies = model.requests.map(({ bytes }) => bytes);
    expect(new Set(bodies.slice(0, asked)).size).toBeGreaterThan(10);
    const writes = bodies.filter((bytes) => bytes.includes('"name":"questions"'));
    expect(writes.length - new Set(writes).size).toBeLessThanOrEqual(8);
  } finally {
    await model.close();
  }
});

it("with nothing left to ask the file comes out the same, whatever the concurrency, and a person's decisions stay", async () => {
  const folder = island(20);
  const model = await lighthouses();
  const out = join(temporary(), "s.jsonl");
  try {
    const cache = memoryCache();
    const { kept } = await generated(documentSource(folder), judgeAt(model.url, cache), out);
    const written = readFileSync(out, "utf8");
    const asked = model.requests.length;
    const slow = new Judge(new JudgeClient({ ...clientSettings, url: model.url, concurrency: 1 }), cache, "scripted");
    await generated(documentSource(folder), slow, out);
    expect(model.requests.length).toBe(asked);
    expect(readFileSync(out, "utf8")).toBe(written);
    const [edited, refused, ...rest] = kept as [(typeof kept)[number], (typeof kept)[number], ...typeof kept];
    writeScenarioFile(out, {
      kept: [{ ...edited, question: "Who is the keeper?", reviewed: "edited" }, ...rest],
      dropped: [{ ...refused, dropped: "reviewer", reviewed: "dropped" }],
    });
    const again = await generated(documentSource(folder), slow, out);
    expect(again.kept.find(({ id }) => id === edited.id)).toMatchObject({
      question: "Who is the keeper?",
      reviewed: "edited",
    });
    expect(again.kept.some(({ id }) => id === refused.id)).toBe(false);
    expect(readFileSync(droppedFileOf(out), "utf8")).toContain(`"id":"${refused.id}"`);
    expect(again.summary.reviewed).toBe(2);
  } finally {
    await model.close();
  }
});

it("what a person takes back stays behind what was kept, where the file is made again", () => {
  const row = (id: string) => ({ id, split: "train", question: id, answer: id }) as const;
  const [first, second] = [row("first"), row("second")];
  const back = { ...row("back"), reviewed: "kept" } as const;
  const fresh = [first, { ...row("back"), dropped: "duplicate" }, { ...second, dropped: "duplicate" }, second];
  const file = { kept: [first, second, back], dropped: [] };
  expect(withReviews(fresh, file)).toEqual(file);
});

it.each([
  ["--documents none: there is no such folder", () => documentSource("none")],
  ["--sql none: there is no such file", () => sqlSource("none")],
])("%s", (line, open) => expect(open).toThrow(line));
