import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { CallRecord, FinishedRollout } from "../../../src/core/task/task.js";
import { emailReward } from "../../../src/email/reward.js";
import type { EmailScenario } from "../../../src/email/scenario.js";

const scenario: EmailScenario = {
  id: "q",
  split: "test",
  question: "When is the Falcon deadline?",
  answer: "May 14",
  message_ids: ["acorn-fox"],
  inbox_address: "wanda.ellis@acme.example",
  query_date: "2025-03-01",
};

const call = (name: string, args: Record<string, unknown>, result: unknown, outcome: CallRecord["outcome"] = "ok") =>
  ({ turn: 1, name, arguments: args, outcome, result }) satisfies CallRecord;
const search = (...ids: string[]) =>
  call(
    "search_inbox",
    { keywords: ["Falcon"] },
    ids.map((message_id) => ({ message_id, snippet: "..." })),
  );
const read = (id: string) => call("read_email", { message_id: id }, { message_id: id });
const failedRead = (id: string) => call("read_email", { message_id: id }, { error: "no such mail" }, "tool_error");
const says = (answer: string, ...ids: string[]) =>
  call("return_final_answer", { answer, reference_message_ids: ids }, "ok");

function rollout(calls: CallRecord[], turns = calls.length): FinishedRollout {
  const last = calls.at(-1);
  const answer = last?.name === "return_final_answer" ? last.arguments : undefined;
  return { messages: [], calls, answer, end: answer ? "answered" : "turn_limit", turns, maxTurns: 10 };
}

const aliases = new Map([
  ["acorn-fox", "acorn-fox"],
  ["copy-of-acorn", "acorn-fox"],
  ["bell-cat", "bell-cat"],
  ["other-cat", "bell-cat"],
]);
const reward = (calls: CallRecord[], turns?: number, about: Partial<EmailScenario> = {}) =>
  emailReward(rollout(calls, turns), { ...scenario, ...about }, (id) => aliases.get(id));

const evidence = search("bell-cat", "acorn-fox");
const honest = [evidence, read("acorn-fox"), says("May 14", "acorn-fox")];

describe("the reward of the email task", () => {
  const table: [value: number, behaviour: string, calls: CallRecord[], turns?: number][] = [
    [0.97, "evidence found and read, right answer, only evidence cited, in 3 turns", honest],
    [0.94, "the same in 6 turns", honest, 6],
    [0.77, "other mail cited as well", [evidence, read("acorn-fox"), says("May 14", "acorn-fox", "bell-cat")]],
    [0.77, "nothing cited", [evidence, read("acorn-fox"), says("May 14")]],
    [0.2, "evidence found, right answer without reading it", [evidence, says("May 14", "acorn-fox")]],
    [0.2, "evidence read, then not found", [evidence, read("acorn-fox"), says("not found")]],
    [0.1, "right answer by guessing", [says("May 14", "acorn-fox")]],
    [0.1, "evidence read, then a wrong answer", [evidence, read("acorn-fox"), says("May 15", "acorn-fox")]],
    [0.1, "evidence read, then no answer at all", [evidence, read("acorn-fox")]],
    [0.1, "evidence found but not read, then not found", [evidence, says("not found")]],
    [0, "not found at once", [says("not found")]],
    [0, "not found after a search too few", [search("bell-cat"), says("not found")]],
    [-0.1, "wrong answer without evidence", [search("bell-cat"), read("bell-cat"), says("June 3", "bell-cat")]],
    [-0.1, "no answer without evidence", [search(), search(), search()]],
  ];

  it.each(table)("is %d for: %s", (value, _, calls, turns) => {
    expect(reward(calls, turns).reward).toBeCloseTo(value, 10);
  });

  it("falls from behaviour to behaviour as its docstring says", () => {
    const values = table.map(([, , calls, turns]) => reward(calls, turns).reward);
    expect(values).toEqual([...values].sort((a, b) => b - a));
    const source = readFileSync(new URL("../../../src/email/reward.ts", import.meta.url), "utf8");
    const documented = [...source.matchAll(/^ \* \|.*\| ([−\d.]+) \|$/gm)].map((row) =>
      Number(row[1]?.replace("−", "-")),
    );
    expect([...new Set(documented)]).toEqual([...new Set(table.map(([value]) => value))]);
  });

  it("pays no shortcut even half of what honest work earns", () => {
    const shortcuts = [
      [evidence, says("May 14", "acorn-fox")],
      [says("May 14")],
      [says("not found")],
      [evidence, says("not found", "acorn-fox", "bell-cat")],
      [evidence, read("acorn-fox"), says("May 14 or June 3", "acorn-fox")],
    ];
    for (const calls of shortcuts) expect(reward(calls).reward).toBeLessThan(0.4 * reward(honest).reward);
  });

  it("pays reading everything and citing everything clearly less", () => {
    const everything = [
      evidence,
      read("bell-cat"),
      read("acorn-fox"),
      says("May 14", "acorn-fox", "bell-cat", "other-cat"),
    ];
    expect(reward(everything).reward).toBeLessThan(reward(honest).reward - 0.2);
  });

  it("pays less for more turns, whatever else is done well", () => {
    const values = [3, 4, 5, 6, 7, 8, 9, 10].map((turns) => reward(honest, turns).reward);
    for (let i = 1; i < values.length; i++) expect(values[i]).toBeLessThan(values[i - 1] as number);
  });
});

describe("what the email reward calls success", () => {
  it("is a right answer, with its parts named", () => {
    expect(reward(honest)).toMatchObject({
      success: true,
      parts: { right: 1, grounded: 1, found: 1, read: 1, cited: 1, gave_up: 0, answered: 1 },
    });
    expect(reward([evidence, says("May 14th")])).toMatchObject({
      success: true,
      parts: { right: 1, grounded: 0, read: 0 },
    });
    expect(reward([evidence, says("not found")])).toMatchObject({ success: false, parts: { gave_up: 1, answered: 1 } });
    expect(reward([evidence])).toMatchObject({ success: false, parts: { gave_up: 0, answered: 0 } });
  });

  it("takes an alias of the evidence for the evidence", () => {
    const byAlias = [search("copy-of-acorn"), read("copy-of-acorn"), says("May 14", "copy-of-acorn")];
    expect(reward(byAlias)).toEqual(reward(honest));
    expect(reward(honest, 3, { message_ids: ["copy-of-acorn"] })).toEqual(reward(honest));
  });

  it("counts no failed read and no id that does not exist", () => {
    const parts = reward([search(), failedRead("acorn-fox"), says("May 14", "no-such-id")]).parts;
    expect(parts).toMatchObject({ found: 0, read: 0, cited: 0 });
  });

  it("asks for one of several evidence mails found and read, and for nothing but evidence cited", () => {
    const several = { message_ids: ["acorn-fox", "bell-cat"] };
    const parts = (...cited: string[]) =>
      reward([search("bell-cat"), read("bell-cat"), says("May 14", ...cited)], 3, several).parts;
    expect(parts("bell-cat")).toMatchObject({ found: 1, read: 1, cited: 1 });
    expect(parts("acorn-fox", "bell-cat")).toMatchObject({ cited: 1 });
    expect(parts("acorn-fox", "stranger")).toMatchObject({ cited: 0 });
    expect(parts()).toMatchObject({ cited: 0 });
  });

  it("does not stumble over answers of another form than asked", () => {
    const odd = { ...rollout(honest), answer: { answer: 14, reference_message_ids: "acorn-fox" } };
    expect(emailReward(odd, scenario, (id) => id)).toMatchObject({ success: false, parts: { answered: 0, cited: 0 } });
  });
});
