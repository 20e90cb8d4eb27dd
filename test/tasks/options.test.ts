import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type AnyTask, defineTask, type Scenario } from "../../src/core/task/task.js";
import {
  givenForTask,
  resolveTaskOptions,
  taskDifferences,
  taskOptionsOf,
  taskOptionsText,
} from "../../src/scenarios/task-options.js";

const seen: unknown[] = [];

const parts = {
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
};

const task = defineTask({
  ...parts,
  name: "sums",
  options: z.object({
    count: z.int().min(1).max(50).default(5).describe("how many sums"),
    level: z.enum(["easy", "hard"]).default("easy"),
    title: z.string().optional(),
    words: z.array(z.string()).default([]),
    file: z.string().optional().meta({ path: true }),
    fast: z.boolean().default(false),
  }),
  scenarios: (options): Scenario[] => {
    seen.push(options);
    // The types follow from the schema.
    const { count, seed } = options;
    return Array.from({ length: count }, (_, i) => ({ id: `${seed}-${i}`, split: "train", question: options.level }));
  },
}) as unknown as AnyTask;

const bare = defineTask({
  ...parts,
  name: "bare",
  scenarios: ({ seed }) => [{ id: `${seed}`, split: "test", question: "?" }],
});

describe("a task's options", () => {
  const defaults = { count: 5, level: "easy", words: [], fast: false };

  it("have their defaults, and are read from text as their schema says", () => {
    expect(resolveTaskOptions(task)).toEqual(defaults);
    expect(resolveTaskOptions(task, { count: "7", level: "hard", title: "12", words: '["a"]', fast: "true" })).toEqual({
      count: 7,
      level: "hard",
      title: "12",
      words: ["a"],
      fast: true,
    });
  });

  it("come from several places, the strongest last; paths become absolute", () => {
    const { count, file } = resolveTaskOptions(task, { count: 7, file: "/elsewhere" }, { file: "a/b" });
    expect([count, file]).toEqual([7, resolve("a/b")]);
  });

  it("reach the task parsed, with the seed and the home folder", async () => {
    seen.length = 0;
    const options = taskOptionsOf(task, { home: "/h", seed: 9 }, { count: "2" });
    expect(await task.scenarios(options)).toMatchObject([{ id: "9-0" }, { id: "9-1" }]);
    expect(seen).toEqual([{ ...defaults, count: 2, home: "/h", seed: 9 }]);
    expect(await bare.scenarios(taskOptionsOf(bare as unknown as AnyTask, { home: "/h", seed: 4 }))).toMatchObject([
      { id: "4" },
    ]);
  });

  it.each([
    [{ cuont: 3 }, "--set cuont=3: the task sums has no such option; did you mean count?"],
    [{ colour: "red" }, "--set colour=red: the task sums has no such option; it has count, level, title"],
    [{ count: "none" }, "--set count=none: Invalid input: expected number, received string (the task sums)"],
    [{ count: "0" }, "--set count=0: Too small: expected number to be >=1 (the task sums)"],
    [{ level: "odd" }, '--set level=odd: Invalid option: expected one of "easy"|"hard" (the task sums)'],
  ])("are refused in one line when they are wrong: %j", (given, message) => {
    const check = () => resolveTaskOptions(task, given);
    expect(check).toThrow(expect.objectContaining({ exitCode: 2 }));
    expect(check).toThrow(message);
  });

  it("that must be given are asked for", () => {
    const needy = defineTask({
      ...parts,
      name: "needy",
      options: z.object({ place: z.string() }),
      scenarios: () => [],
    });
    expect(() => resolveTaskOptions(needy as unknown as AnyTask)).toThrow("the task needy needs --set place=TEXT");
  });

  it("cannot take the names that every task gets", () => {
    const options = z.object({ seed: z.number().default(1) });
    expect(() => defineTask({ ...parts, name: "t", options, scenarios: () => [] })).toThrow(/every task gets seed/);
  });

  it("are listed with what they accept and their defaults", () => {
    expect(taskOptionsText(task).split("\n").slice(0, 4)).toEqual([
      "Options of the task sums:",
      "  --set count=1..50      how many sums (default: 5)",
      "  --set level=easy|hard  (default: easy)",
      "  --set title=TEXT",
    ]);
    expect(taskOptionsText(bare as unknown as AnyTask)).toBe("The task bare has no options of its own (--set).");
  });
});

describe("flags that are short for an option of the task", () => {
  it("count as given with --set, and not twice", () => {
    expect(givenForTask({ db: "a.db", set: { rank: "bm25" } })).toEqual({ db: "a.db", rank: "bm25" });
    expect(givenForTask({ seed: 3 })).toEqual({});
    expect(() => givenForTask({ db: "a.db", set: { db: "b.db" } })).toThrow("--db is short for --set db=...");
  });
});

describe("a run that goes on", () => {
  it("names the task's options that differ, but for paths and those that it had by default", () => {
    const now = resolveTaskOptions(task, { count: 6, file: "/there" });
    expect(taskDifferences(task, { count: 5, file: "/here" }, now)).toEqual(["--set count=6 (was 5)"]);
    expect(taskDifferences(task, { count: 6 }, now)).toEqual([]);
    expect(taskDifferences(task, { count: 6, old: 1 }, now)).toEqual(["the task has no option old any more (was 1)"]);
  });
});
