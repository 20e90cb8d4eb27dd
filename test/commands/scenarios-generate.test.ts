import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildMailDatabase } from "../../src/email/building/build.js";
import { loadTask, scenariosOf } from "../../src/scenarios/load.js";
import type { ChatServer } from "../judge/support/server.js";
import { startModel } from "../scenarios/support/model.js";
import { CommandLine } from "../support/command-line.js";
import { freePort } from "../support/free-port.js";

let folder: string;
let model: ChatServer;

/** It asks for the first long line of any piece. */
const lineOf = (text: string) => text.split("\n").find((line) => line.length > 60) ?? "";

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "hone-generate-"));
  const known = new Map<string, string>();
  model = await startModel({
    write: (text) => {
      const quote = lineOf(text);
      const words = quote.match(/[\p{L}\p{N}]+/gu) ?? [];
      const answer = words.slice(-2).join(" ");
      const question = `How does the line with ${words.slice(0, 6).join(" ")} end?`;
      known.set(question, answer);
      return quote === "" ? [] : [{ question, answer, quote }];
    },
    factOf: (question) => {
      const answer = known.get(question) ?? "";
      return { answer, isIn: (text) => text.includes(answer.split(" ").at(-1) as string) };
    },
  });
  mkdirSync(join(folder, "docs"));
  for (let i = 0; i < 12; i++) {
    const text = `Rule ${i} of the house of ${"abcdefghijkl"[i]}ory says that nobody may leave before hour${i} strikes bell${i}\n`;
    writeFileSync(join(folder, "docs", `${i}.md`), text);
  }
});
afterAll(async () => {
  commandLine.close();
  await model.close();
  rmSync(folder, { recursive: true });
});

const commandLine = new CommandLine();
const generate = (...args: string[]) => commandLine.run(folder, "scenarios", "generate", ...args);

const access = () => ["--judge-url", model.url, "--judge-model", "gpt-4o-mini"];
const rowsOf = (file: string) =>
  readFileSync(join(folder, file), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("yarn hone scenarios generate", () => {
  it("asks about documents, says what was dropped and what it cost, and takes all from the cache the second time", async () => {
    const args = ["--documents", "docs", ...access(), "--out", "s.jsonl", "--judge-max-cost", "1"];
    const first = await generate(...args);
    expect(first).toMatchObject({ status: 0, stderr: "" });
    expect(first.stdout).toMatch(/^\d+ scenarios: \d+ train, \d+ test\n {2}read {8}12 of 12 parts of documents/);
    expect(first.stdout).toContain("$0.00");
    const rows = rowsOf("s.jsonl");
    expect(rows.length).toBeGreaterThan(8);
    expect(rows[0]).toEqual({
      id: expect.stringMatching(/^documents-[0-9a-f]{12}$/),
      split: expect.stringMatching(/^(train|test)$/),
      question: expect.stringMatching(/^How does the line with Rule/),
      answer: expect.stringMatching(/^strikes bell\d+$/),
      evidence: [expect.stringMatching(/^\d+\.md$/)],
      quote: expect.any(String),
      provenance: {
        source: "documents",
        from: "docs",
        title: expect.stringMatching(/\.md$/),
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        written_by: "gpt-4o-mini",
        checked_by: ["gpt-4o-mini"],
        agreed: expect.stringMatching(/^2 of [23]$/),
      },
    });
    const asked = model.requests.length;
    const second = await generate(...args, "--json");
    expect(JSON.parse(second.stdout.trim().split("\n").at(-1) as string)).toMatchObject({ requests: 0, cost: 0 });
    expect(model.requests.length).toBe(asked);
    expect(rowsOf("s.jsonl")).toEqual(rows);
  });

  it("asks about mail, in a file that the email task takes with the mail it was made from", async () => {
    const db = join(folder, "mail.db");
    await buildMailDatabase({ db, source: { kind: "synthetic", seed: 3, mailboxes: 2 } });
    const { status, stderr } = await generate("--db", db, ...access(), "--n", "10", "--out", "mail.jsonl");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const task = await loadTask("email");
    const scenarios = await scenariosOf(task, { db, scenarios: join(folder, "mail.jsonl"), home: folder, seed: 1 });
    expect(scenarios).toHaveLength(10);
    expect(scenarios[0]).toMatchObject({
      inbox_address: expect.stringContaining("@"),
      query_date: expect.stringMatching(/^\d{4}-/),
    });
    expect(Object.keys(scenarios[0] as object).sort()).toEqual([
      "answer",
      "id",
      "inbox_address",
      "message_ids",
      "query_date",
      "question",
      "split",
    ]);
    const [row, ...rest] = rowsOf("mail.jsonl");
    const withFirst = (change: object) => {
      const rows = [{ ...row, ...change }, ...rest];
      writeFileSync(join(folder, "changed.jsonl"), rows.map((one) => JSON.stringify(one)).join("\n"));
      return scenariosOf(task, { db, scenarios: join(folder, "changed.jsonl"), home: folder, seed: 1 });
    };
    await expect(withFirst({ message_ids: ["<no@where>"] })).rejects.toThrow(
      `the mail <no@where> of the question ${row.id} is not in the database`,
    );
    await expect(withFirst({ query_date: "1999-01-01" })).rejects.toThrow(
      `of the question ${row.id} is none that ${row.inbox_address} may see on 1999-01-01`,
    );
    await expect(withFirst({ inbox_address: "no@where" })).rejects.toThrow("is none that no@where may see on");
  });

  it.each([
    [
      ["--judge-model", "m", "--sql", "a", "--documents", "b"],
      2,
      /^hone: scenarios generate: --documents and --sql are given; give one of --db/,
    ],
    [
      ["--judge-model", "m", "--documents", "docs", "--judge-patience", "0"],
      1,
      /cannot be asked: it has not answered for \d+ s \(--judge-patience\)/,
    ],
    [["--judge-model", "m", "--documents", "docs", "--out", "docs/1.md"], 1, /^hone: .*docs\/1\.md line 1 is not JSON/],
  ])("%j: one line", async (args, status, line) => {
    const result = await generate("--judge-url", `http://127.0.0.1:${await freePort()}/v1`, ...args);
    expect(result.status).toBe(status);
    expect(result.stderr).toMatch(line);
    expect(result.stderr.trim().split("\n")).toHaveLength(1);
  });
});
