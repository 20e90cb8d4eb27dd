/** A run whose store is missing, empty, damaged, or in a folder that cannot be written to. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { RunReader } from "../../src/machine/runs/reader.js";
import { CommandLine } from "../support/command-line.js";
import { goThrough, openFake } from "../train/support/fakes.js";

let home: string;
let folder: string;
let file: string;

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "hone-lost-"));
  folder = join(home, "fake", "models", "one");
  file = join(folder, "run.sqlite");
  await goThrough(folder);
});

// Half an hour beside UTC's hours, and without summer time.
const commandLine = new CommandLine({ TZ: "Asia/Kolkata" });
afterAll(() => commandLine.close());
const hone = (...args: string[]) => commandLine.run(home, ...args);

describe("a run that has checkpoints", () => {
  it.each([
    ["is missing", () => rmSync(file)],
    ["is empty", () => truncateSync(file)],
  ])("does not begin anew where its store %s", async (how, lose) => {
    lose();
    const before = readdirSync(join(folder, "checkpoints"));
    const metrics = existsSync(join(folder, "metrics.jsonl"));
    await expect(openFake(folder)).rejects.toThrow(
      new RegExp(
        `run.sqlite ${how}, though the run has the checkpoint \\d+\\.\nBring it back .*--fork .*/checkpoints/\\d{4}, or remove .*`,
      ),
    );
    expect(readdirSync(join(folder, "checkpoints"))).toEqual(before);
    expect(existsSync(join(folder, "metrics.jsonl"))).toBe(metrics);
    // The lock was given back.
    await expect(openFake(folder)).rejects.toThrow("though the run has");
  });

  it("is not begun over where its store is damaged", async () => {
    truncateSync(file, 9000);
    await expect(openFake(folder)).rejects.toThrow(
      /run\.sqlite is damaged or half written: .*; bring it back from a copy/,
    );
  });
});

it("a run that is damaged or of another format is listed with the reason, and the others as ever", async () => {
  for (const name of ["two", "three", "four"]) cpSync(folder, join(home, "fake", "models", name), { recursive: true });
  truncateSync(join(home, "fake/models/two/run.sqlite"), 9000);
  writeFileSync(join(home, "fake/models/three/run.sqlite"), "this is no database at all".repeat(99));
  new Database(join(home, "fake/models/four/run.sqlite")).pragma("user_version = 4");
  const { status, stdout } = await hone("runs", "--home", ".");
  expect(status).toBe(0);
  const lines = stdout.trimEnd().split("\n").sort();
  expect(lines[0]).toMatch(
    /^fake\/four {2}cannot be read: .*run\.sqlite has format 4, and this hone reads format \d+ only: begin another run with --run NAME, from its adapter with --fork .*four\/checkpoints\/NNNN\/adapter, or use the hone that made it$/,
  );
  expect(lines[1]).toMatch(/^fake\/one {2}2 steps {2}/);
  expect(lines[2]).toMatch(/^fake\/three {2}cannot be read: .*run\.sqlite is not a run of hone$/);
  expect(lines[3]).toMatch(/^fake\/two {2}cannot be read: .*run\.sqlite is damaged or half written: /);
  const listed = JSON.parse((await hone("runs", "--home", ".", "--json")).stdout) as {
    run: string;
    problem: string | null;
  }[];
  expect(listed.filter(({ problem }) => problem === null).map(({ run }) => run)).toEqual(["one"]);
});

it("a run is listed with the time of its last change where the user is", async () => {
  utimesSync(file, 0, Date.UTC(2031, 1, 3, 20, 5) / 1000);
  expect((await hone("runs", "--home", ".")).stdout).toMatch(/ {2}2031-02-04 01:35\n$/);
});

it("a run in a folder that cannot be written to is read, and leaves nothing behind", () => {
  const isRoot = process.geteuid?.() === 0;
  for (const path of [home, join(home, "fake"), join(home, "fake/models")]) chmodSync(path, 0o755);
  rmSync(`${file}-wal`, { force: true });
  rmSync(`${file}-shm`, { force: true });
  const files = readdirSync(folder);
  chmodSync(folder, 0o555);
  // A folder of its own for temporary files: other tests have theirs in the one of all.
  const { TMPDIR } = process.env;
  const temporary = mkdtempSync(join(tmpdir(), "hone-lost-"));
  chmodSync(temporary, 0o777);
  process.env.TMPDIR = temporary;
  // Nothing is forbidden to root.
  if (isRoot) process.seteuid?.(65534);
  try {
    const reader = RunReader.open(folder);
    expect(reader.record().name).toBe("one");
    expect(reader.steps().map(({ step }) => step)).toEqual([0, 1, 2]);
    expect([...reader.rollouts()].length).toBeGreaterThan(0);
    reader.close();
  } finally {
    if (isRoot) process.seteuid?.(0);
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    chmodSync(folder, 0o755);
  }
  expect(readdirSync(folder)).toEqual(files);
  expect(readdirSync(temporary)).toEqual([]);
  rmSync(temporary, { recursive: true });
});
