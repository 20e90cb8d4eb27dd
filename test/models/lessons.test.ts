/** What the tiny model was shown by imitation, and what it was not: three calls, and the task's own questions. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { buildMailDatabase } from "../../src/email/building/build.js";
import { openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";

interface Line {
  readonly kind: string;
  readonly pieces: readonly (readonly [text: string, role: "given" | "played"])[];
}

const { lessons } = await import(join(packageRoot, "models/tiny/recipe/lessons.mjs"));
const folder = mkdtempSync(join(tmpdir(), "hone-lessons-"));
const db = join(folder, "mail.db");
let lines: readonly Line[];
let scenarios: readonly EmailScenario[];

beforeAll(async () => {
  const node = (...args: string[]) => execFileSync(process.execPath, args, { stdio: "pipe" });
  await buildMailDatabase({ db, source: { kind: "synthetic", seed: 9, mailboxes: 10 } });
  const out = join(folder, "lessons.jsonl");
  node(join(packageRoot, "models/tiny/recipe/traces.mjs"), "--db", db, "--out", out);
  lines = readFileSync(out, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const mail = openMailDatabase(db);
  scenarios = mail.scenarios();
  mail.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Names of the tools that the expert calls, in order; the prompt names them all. */
const called = ({ pieces }: Line) =>
  pieces.flatMap(([text, role]) => (role === "played" ? [/"name": "(\w+)"/.exec(text)?.[1]] : []));

describe("the lessons of the tiny model", () => {
  it("are the stated ones, each of two calls", () => {
    const train = scenarios.filter(({ split }) => split === "train");
    const ways = { find: "search answer", name: "search answer", open: "search read", tell: "read answer" };
    expect(Object.keys(lessons)).toEqual(Object.keys(ways));
    const short = { search_inbox: "search", read_email: "read", return_final_answer: "answer" };
    for (const [lesson, way] of Object.entries(ways)) {
      const played = lines.filter((line) => line.kind === lesson);
      expect(played).toHaveLength(train.length);
      const seen = played.map((line) => called(line).map((name) => short[name as keyof typeof short]));
      expect(new Set(seen.map((names) => names.join(" ")))).toEqual(new Set([way]));
    }
  });

  it("end with the second call, and no call fails", () => {
    for (const { pieces } of lines) {
      expect(pieces.map(([, role]) => role)).toEqual(["given", "played", "given", "played"]);
      expect(pieces[2]?.[0]).not.toContain('"error"');
      expect(pieces[2]?.[0]).toContain('"message_id"');
    }
  });

  it("never ask the task's own question, nor any of the test split", () => {
    const asked = new Set(scenarios.map(({ question }) => question));
    const tested = scenarios.filter(({ split }) => split === "test").map(({ question }) => question);
    for (const { pieces } of lines) {
      const question = pieces[0]?.[0].split("<|im_start|>user\n")[1]?.split("<|im_end|>")[0] as string;
      expect(asked.has(question)).toBe(false);
      expect(tested.filter((one) => question.includes(one))).toEqual([]);
    }
  });

  it("never have an answer's text behind a search", () => {
    const answered = lines.filter((line) => called(line).join(" ") === "search_inbox return_final_answer");
    expect(answered.length).toBeGreaterThan(0);
    for (const { pieces } of answered) {
      const [, id] = /"answer": "([^"]*)"/.exec(pieces[3]?.[0] ?? "") ?? [];
      expect(pieces[2]?.[0]).toContain(`{"message_id":"${id}"`);
    }
  });
});

it("yarn tiny-model says that there is one model, when another base is asked for", () => {
  const script = join(packageRoot, "scripts/tiny-model.mjs");
  const { status, stderr } = spawnSync(process.execPath, [script, "--base", "untaught"], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: "hone: --base: there is one model; leave it out, and yarn tiny-model makes models/tiny anew\n",
  });
});
