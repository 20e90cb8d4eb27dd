import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type SpeedResults, saveSpeed } from "../../bench/results.js";
import type { Row } from "../../bench/row.js";

const hardware = { cpu: "Some CPU", cores: 2, memoryGB: 8, gpu: "none", system: "linux x64" };
const row = (name: string, ours: number): Row => ({
  name,
  model: "m.gguf",
  sequences: 8,
  ours,
  theirs: null,
  ratio: null,
  unit: "ms",
  target: "",
});
const read = (file: string) => JSON.parse(readFileSync(file, "utf8")) as SpeedResults;

test("rows measured later join the day's, and take the place of their like", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-results-"));
  saveSpeed({ hardware, versions: { hone: "1", "llama.cpp": "a" }, rows: [row("fork", 1), row("swap", 2)] }, folder);
  const file = saveSpeed({ hardware, versions: { hone: "1" }, rows: [row("swap", 3), row("learner", 4)] }, folder);
  expect(read(file).rows.map(({ name, ours }) => [name, ours])).toEqual([
    ["fork", 1],
    ["learner", 4],
    ["swap", 3],
  ]);
  expect(read(file).versions).toEqual({ hone: "1", "llama.cpp": "a" });
  expect(readdirSync(folder)).toHaveLength(1);
});

test("figures of another version neither mix with the day's nor replace them", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-results-"));
  const first = saveSpeed({ hardware, versions: { hone: "1" }, rows: [row("fork", 1)] }, folder);
  const second = saveSpeed({ hardware, versions: { hone: "2" }, rows: [row("fork", 2)] }, folder);
  const again = saveSpeed({ hardware, versions: { hone: "2" }, rows: [row("swap", 3)] }, folder);
  expect(again).toBe(second);
  expect(read(first).rows.map(({ ours }) => ours)).toEqual([1]);
  expect(read(second).rows.map(({ ours }) => ours)).toEqual([2, 3]);
});
