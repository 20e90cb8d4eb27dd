/** Scenarios from files: what each format gives, which rows are for tests, and the line that says what is wrong. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { type AnyTask, defineTask, type Scenario, type ScenarioIo } from "../../src/core/task/task.js";
import { type FileScenarios, fromFile } from "../../src/machine/dataset/from-file.js";
import { scenariosOf } from "../../src/scenarios/load.js";
import { givenForTask, taskDifferences, taskOptionsOf } from "../../src/scenarios/task-options.js";
import { HubServer } from "../support/hub-server.js";

const base = mkdtempSync(join(tmpdir(), "hone-dataset-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

let folder: string;
let count = 0;
beforeEach(() => {
  folder = join(base, String(count++));
  mkdirSync(folder);
});

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const parquet = (columns: Record<string, unknown[]>) =>
  new Uint8Array(
    parquetWriteBuffer({ columnData: Object.entries(columns).map(([name, data]) => ({ name, data }) as never) }),
  );

const fields = z.object({ answer: z.string() });

function taskOf<S extends Scenario>(scenarios: FileScenarios<S>): AnyTask {
  return defineTask({
    name: "quiz",
    scenarios,
    prompt: () => [],
    reward: () => ({ reward: 0, success: false, parts: {} }),
  }) as unknown as AnyTask;
}

/** What a command does with `--scenarios` and the like. */
function load(
  task: AnyTask,
  given: Record<string, unknown> = {},
  { io, seed = 1 }: { io?: ScenarioIo; seed?: number } = {},
) {
  return scenariosOf(task, taskOptionsOf(task, { home: join(folder, "home"), seed }, givenForTask(given)), io);
}

/** With an answer, from the file and the options of the task alone. */
const read = (path: string, map?: Record<string, string>) =>
  load(taskOf(fromFile(path, { fields, ...(map ? { map } : {}) })));

const jsonl = (...rows: object[]) => rows.map((row) => JSON.stringify(row)).join("\n");

const capitals = [
  { prompt: "France?", gold: "Paris", uuid: "a", fold: "train" },
  { prompt: "Spain?", gold: "Madrid", uuid: "b", fold: "validation" },
];
const map = { question: "prompt", answer: "gold", id: "uuid", split: "fold" };
const wanted = [
  { id: "a", split: "train", question: "France?", answer: "Paris" },
  { id: "b", split: "test", question: "Spain?", answer: "Madrid" },
];

describe("a file of scenarios", () => {
  it.each([
    ["JSON lines", "data.jsonl", jsonl(...capitals)],
    [
      "JSON lines with a byte-order mark and Windows' line ends",
      "data.jsonl",
      `\uFEFF${jsonl(...capitals).replace("\n", "\r\n\r\n")}\r\n`,
    ],
    ["CSV", "data.csv", 'uuid,prompt,gold,fold\na,"France?",Paris,train\n\nb,Spain?,Madrid,validation\n'],
    [
      "CSV with a byte-order mark",
      "data.csv",
      "\uFEFFuuid,prompt,gold,fold\r\na,France?,Paris,train\r\nb,Spain?,Madrid,validation",
    ],
    [
      "CSV with columns without a name",
      "data.csv",
      ",uuid,prompt,gold,fold,,\n0,a,France?,Paris,train,,\n1,b,Spain?,Madrid,validation,,\n",
    ],
    ["Excel's CSV", "data.csv", "uuid;prompt;gold;fold\na;France?;Paris;train\nb;Spain?;Madrid;validation"],
    ["TSV", "data.tsv", "uuid\tprompt\tgold\tfold\na\tFrance?\tParis\ttrain\nb\tSpain?\tMadrid\tvalidation"],
    [
      "Parquet",
      "data.parquet",
      parquet(
        Object.fromEntries(
          Object.keys(map).map((name) => [map[name as "id"], capitals.map((row) => row[map[name as "id"] as "uuid"])]),
        ),
      ),
    ],
  ])("is read as %s, its columns mapped", async (_, name, content) => {
    expect(await read(file(name, content), map)).toEqual(wanted);
  });

  it("is named in the task file, or with --scenarios and --map, which also changes single columns", async () => {
    const own = file("own.jsonl", jsonl({ question: "q", answer: "a", split: "train" }));
    const task = taskOf(fromFile(pathToFileURL(own), { fields }));
    expect(await load(task)).toEqual([{ id: "own-1", split: "train", question: "q", answer: "a" }]);
    const other = file("other.jsonl", jsonl(...capitals));
    expect(await load(task, { scenarios: other, map: "question=prompt,answer=gold,id=uuid,split=fold" })).toEqual(
      wanted,
    );
    const mapped = taskOf(fromFile(other, { fields, map }));
    expect((await load(mapped, { map: "answer=prompt" }))[0]).toMatchObject({ question: "France?", answer: "France?" });
  });

  it("keeps numbers and lists, reads them from CSV's text, and finds what lies inside a column", async () => {
    const numbers = fromFile(file("data.csv", 'question,answer,tags\n12?,12,"[""x""]"\n13?,13,[]\n'), {
      fields: z.object({ answer: z.number(), tags: z.array(z.string()) }),
    });
    expect((await load(taskOf(numbers))).map(({ id: _, split: __, ...rest }) => rest)).toEqual([
      { question: "12?", answer: 12, tags: ["x"] },
      { question: "13?", answer: 13, tags: [] },
    ]);
    const [first] = await read(
      file("squad.jsonl", jsonl({ question: "q", answers: { text: ["right", "too"] }, split: "train" })),
      { answer: "answers.text.0" },
    );
    expect(first).toMatchObject({ answer: "right" });
    const whole = file("big.parquet", parquet({ question: ["a", "b"], answer: [7n, 8n] }));
    const big = taskOf(fromFile(whole, { fields: z.object({ answer: z.int() }) }));
    expect((await load(big)).map((one) => (one as unknown as { answer: number }).answer)).toEqual([7, 8]);
    const floats = file("floats.parquet", parquet({ question: ["a", "b"], answer: [1e17, 0.5] }));
    const any = taskOf(fromFile(floats, { fields: z.object({ answer: z.unknown() }) }));
    expect((await load(any)).map((one) => (one as unknown as { answer: number }).answer)).toEqual([1e17, 0.5]);
  });

  it("has an integer that a number would round as a text of its digits, whatever its format", async () => {
    const ids = [9007199254740993n, 1234567890123456788n, 1234567890123456789n];
    const lines = ids.map((id) => `{"id": ${id}, "question": "q${id}", "answer": "a"}`).join("\n");
    const columns = { id: ids, question: ids.map((id) => `q${id}`), answer: ids.map(() => "a") };
    for (const path of [file("ids.jsonl", lines), file("ids.parquet", parquet(columns))]) {
      expect((await read(path)).map(({ id }) => id)).toEqual(ids.map(String));
    }
  });

  it("is held to a task's checks of several fields together", async () => {
    const together = z
      .object({ answer: z.string(), choices: z.array(z.string()) })
      .refine(({ answer, choices }) => choices.includes(answer), "the answer is none of the choices");
    const of = (...rows: object[]) =>
      load(taskOf(fromFile(file("choices.jsonl", jsonl(...rows)), { fields: together })));
    const [right, wrong] = ["b", "c"].map((answer) => ({ question: `${answer}?`, answer, choices: ["a", "b"] }));
    expect(await of(right as object)).toHaveLength(1);
    await expect(of(right as object, wrong as object)).rejects.toThrow(
      /choices\.jsonl line 2: the answer is none of the choices$/,
    );
  });

  it("is compared by content when a run goes on: another path of it is no difference, another mapping is", () => {
    const task = taskOf(fromFile("a.jsonl", { fields }));
    const told = (given: Record<string, unknown>) => taskOptionsOf(task, { home: ".", seed: 1 }, givenForTask(given));
    const { home: _, seed: __, ...before } = told({ scenarios: "hf:a/b" });
    expect(before).toEqual({ scenarios: "hf:a/b" });
    expect(taskDifferences(task, before, told({}))).toEqual([]);
    expect(taskDifferences(task, before, told({ map: "id=uuid" }))).toEqual(["--set map=id=uuid (was unset)"]);
  });
});

describe("which rows are for tests", () => {
  const rows = Array.from({ length: 50 }, (_, i) => ({ question: `q${i}`, answer: "a" }));
  const tests = (all: readonly { id: string; split: string }[]) =>
    all.flatMap(({ id, split }) => (split === "test" ? [id] : []));

  it("a share of them, drawn by the seed; the same question is never on both sides", async () => {
    const task = taskOf(fromFile(file("data.jsonl", jsonl(...rows, ...rows)), { fields }));
    const drawn = await load(task);
    expect(tests(drawn)).toHaveLength(20);
    expect(tests(await load(task))).toEqual(tests(drawn));
    expect(tests(await load(task, {}, { seed: 2 }))).not.toEqual(tests(drawn));
    expect(tests(await load(task, { testShare: 0.5 }))).toHaveLength(50);
    const sides = new Map(drawn.slice(0, 50).map(({ question, split }) => [question, split]));
    expect(drawn.slice(50).filter(({ question, split }) => sides.get(question) !== split)).toEqual([]);
  });

  it("at least one, and not all", async () => {
    const two = taskOf(fromFile(file("two.jsonl", jsonl(...rows.slice(0, 2))), { fields }));
    expect(tests(await load(two, { testShare: 0.001 }))).toHaveLength(1);
    expect(tests(await load(two, { testShare: 0.999 }))).toHaveLength(1);
  });

  it("those in files called so; a share that is given is stronger, and a split column that is named stronger than that of the task", async () => {
    const [train, test] = [rows.slice(0, 30), rows.slice(30)];
    file("train-00000-of-00001.jsonl", jsonl(...train));
    file("test-00000-of-00001.jsonl", jsonl(...test));
    const task = taskOf(fromFile(folder, { fields }));
    const named = await load(task);
    expect(tests(named)).toEqual(test.map((_, i) => `test-00000-of-00001-${i + 1}`));
    expect(tests(await load(task, { testShare: 0.1 }))).toHaveLength(5);
    const own = taskOf(
      fromFile(file("own.jsonl", jsonl(...capitals)), {
        fields,
        map: { question: "prompt", answer: "gold" },
        testShare: 0.5,
      }),
    );
    expect(tests(await load(own, { map: "split=fold" }))).toEqual(["own-2"]);
    await expect(load(own, { map: "split=fold", testShare: 0.5 })).rejects.toThrow("--test-share both say");
  });
});

describe("what is wrong with a file is one line that names the place", () => {
  const good = { question: "q", answer: "a" };

  it.each([
    ["an empty file", "data.jsonl", "", "data.jsonl has no rows"],
    ["a header alone", "data.csv", "question,answer\n", "data.csv has no rows"],
    ["no JSON", "data.jsonl", `${jsonl(good)}\n{"question": `, "data.jsonl line 2 is not JSON"],
    ["an array", "data.jsonl", "[\n{}]", "line 1 is not JSON; each line is one object"],
    ["a number in a line", "data.jsonl", "7", "line 1 is no JSON object"],
    ["no answer", "data.jsonl", jsonl(good, { question: "q" }), "data.jsonl line 2 has no answer"],
    ["an empty question", "data.csv", "question,answer\n  ,x\n", "data.csv line 2 has no question"],
    ["an empty cell", "data.csv", "question,answer\nq,\n", "data.csv line 2 has no answer"],
    [
      "an answer of another kind",
      "data.jsonl",
      jsonl({ question: "q", answer: ["a"] }),
      "line 1: answer is no answer of this task",
    ],
    [
      "the same id",
      "data.jsonl",
      jsonl({ ...good, id: 7 }, good, { ...good, id: "7" }),
      "line 3 has the id 7, which line 1 has too",
    ],
    ["an unknown split", "data.jsonl", jsonl({ ...good, split: "holdout" }), 'line 1: the split is "holdout"'],
    ["no split in one row", "data.jsonl", jsonl({ ...good, split: "train" }, good), "line 2: the split is nothing"],
    ["too few cells", "data.csv", "question,answer\nq\n", "is not the CSV that it should be"],
    ["an open quotation mark", "data.csv", 'question,answer\nq,"a\nb,c\n', "Quote Not Closed"],
    ["a column twice", "data.csv", "question,question\na,b\n", "two columns called question"],
    [
      "a huge field",
      "data.jsonl",
      jsonl({ ...good, answer: "x".repeat(1_000_001) }),
      "line 1: answer has 1000001 characters",
    ],
    ["another encoding", "data.csv", Buffer.from("question,answer\ncaf\xe9,x\n", "latin1"), "is not UTF-8"],
    ["no Parquet", "data.parquet", "PAR0", "is no whole Parquet file"],
    ["another kind of file", "data.xlsx", "x", "end in .jsonl, .ndjson, .csv, .tsv, .parquet"],
  ])("%s", async (_, name, content, message) => {
    const error = await read(file(name, content)).catch((error: Error) => error as Error);
    expect((error as Error).message).toContain(message);
    expect((error as Error).message).toContain(name);
    expect((error as Error).message).not.toContain("\n");
    expect((error as Error).name).toBe("HoneError");
  });

  it("columns that are not there, and fields that the task does not have", async () => {
    const data = file("data.csv", "prompt,golden\nq,a\n");
    const task = taskOf(fromFile(data, { fields }));
    await expect(load(task)).rejects.toThrow(
      "no column question: --map question=COLUMN names the one that is meant. It has prompt, golden",
    );
    await expect(load(task, { map: "question=prompt,answer=gold" })).rejects.toThrow(
      "no column gold for answer: It has prompt, golden",
    );
    await expect(load(task, { map: "question=prompt,anser=golden" })).rejects.toThrow(
      "no field anser, but id, split, question, kind, answer",
    );
    await expect(load(task, { map: "prompt" })).rejects.toThrow("--map prompt: give FIELD=COLUMN");
    await expect(load(task, { scenarios: join(folder, "nowhere.csv") })).rejects.toThrow(
      "--scenarios: there is no file",
    );
  });

  it("a task that makes its own", () => {
    const own = defineTask({
      name: "own",
      scenarios: () => [],
      prompt: () => [],
      reward: () => ({ reward: 0, success: false, parts: {} }),
    });
    expect(() =>
      taskOptionsOf(own as unknown as AnyTask, { home: ".", seed: 1 }, givenForTask({ scenarios: "x.csv" })),
    ).toThrow("--scenarios x.csv: the task own makes its scenarios itself");
  });
});

describe("a data set of the Hub", () => {
  const bytes = (from: number, to: number) =>
    Buffer.from(
      parquet({
        question: Array.from({ length: to - from }, (_, i) => `q${from + i}`),
        answer: Array(to - from).fill("a"),
      }),
    );
  const server = new HubServer({
    "a/quiz": {
      "README.md": Buffer.from("# quiz"),
      "main/train-00000-of-00001.parquet": bytes(0, 6),
      "main/test-00000-of-00001.parquet": bytes(6, 8),
      "hard/train-00000-of-00001.parquet": bytes(8, 9),
    },
    "a/lines": { "lines.jsonl": Buffer.from(jsonl({ question: "q", answer: "a", split: "train" })) },
  });
  beforeEach(() => server.start());
  afterEach(() => server.stop());

  const hub = (more = {}) => ({
    hfEndpoint: server.endpoint,
    hfToken: undefined,
    hfOffline: false,
    hfHome: folder,
    hfCache: undefined,
    ...more,
  });

  it("is downloaded once, its files' names say the splits, and it is there without the Hub", async () => {
    const task = taskOf(fromFile("hf:a/quiz:main", { fields }));
    const loaded = await load(task, {}, { io: { hub: hub() } });
    expect(loaded.map(({ split }) => split)).toEqual([...Array(2).fill("test"), ...Array(6).fill("train")]);
    expect(existsSync(join(folder, "hub/datasets--a--quiz"))).toBe(true);
    const asked = server.requests.length;
    expect(await load(task, {}, { io: { hub: hub() } })).toEqual(loaded);
    expect(server.requests.length).toBe(asked);
    // Another home knows nothing of it; the shared cache does.
    rmSync(join(folder, "home"), { recursive: true });
    expect(await load(task, {}, { io: { hub: hub({ hfOffline: true }) } })).toEqual(loaded);
    expect(JSON.parse(readFileSync(join(folder, "home/datasets/hf--a--quiz--main.json"), "utf8"))).toHaveLength(2);
  });

  it("may have other files than Parquet, and of several parts one is named", async () => {
    expect(await load(taskOf(fromFile("hf:a/lines", { fields })), {}, { io: { hub: hub() } })).toHaveLength(1);
    const task = taskOf(fromFile("hf:a/quiz", { fields }));
    await expect(load(task, {}, { io: { hub: hub() } })).rejects.toThrow(
      "a/quiz has several parts (hard, main); name one: hf:a/quiz:hard",
    );
    const wrong = (scenarios: string) => load(task, { scenarios }, { io: { hub: hub() } });
    await expect(wrong("hf:a/quiz:easy")).rejects.toThrow("a/quiz has no files in easy that end in");
    await expect(wrong("hf:quiz")).rejects.toThrow("a data set is written hf:OWNER/NAME");
    await expect(wrong("hf:a/none")).rejects.toThrow("there is no data set a/none");
  });
});
