/** `yarn gpu-check --first`: sections that fail or take too long, the file to send, and the page. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { cards, expectedDecode } from "../../bench/gpu-check/estimates.js";
import { type FirstOptions, runFirst, withoutFolders } from "../../bench/gpu-check/first.js";
import { type First, firstPage, linesOf } from "../../bench/gpu-check/first-page.js";
import { firstPlan } from "../../bench/gpu-check/first-sections.js";
import { doctor } from "../../bench/gpu-check/sections.js";
import { packageRoot } from "../../src/core/util/paths.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-first-"));
  folders.push(folder);
  return folder;
};

const results = (folder: string) => JSON.parse(readFileSync(join(folder, "first.json"), "utf8")) as First;
const options = (out: string): FirstOptions => ({ gpu: false, small: true, out, again: false, minutes: 45 });
const known: First = {
  what: "hone gpu-check --first",
  began: "2026-11-24T12:00:00.000Z",
  device: "cuda",
  small: false,
  standIn: false,
  hardware: { cpu: "a CPU", cores: 16, memoryGB: 64, gpu: "NVIDIA GeForce RTX 4090", system: "linux x64 6.8" },
  versions: { hone: "0.1.0" },
  sections: {
    doctor: {
      state: "failed",
      problem: "doctor found something <wrong>",
      checks: [{ name: "compiler", state: "note", found: "no C compiler", mend: "apt install gcc" }],
    },
    parity: { state: "done", rows: [{ adapter: "with", tokens: 299, mean: 0.004, max: 0.05 }] },
    speed: {
      state: "done",
      rows: [{ sequences: 8, without_adapter: 2000, with_adapter: 1100, llama_batched_bench: 2500, ratio: 0.8 }],
    },
    steps: {
      state: "done",
      steps: [],
      limit: 0.02,
      learner: { planned: 4e9, measured: 3e9 },
      card: { planned: 8e9, measured: null },
    },
  },
};

describe("the first hour on a card", () => {
  it("takes 45 minutes at most, the doctor first and Unsloth last", () => {
    expect(firstPlan.reduce((sum, { minutes }) => sum + minutes, 0)).toBeLessThanOrEqual(45);
    const names = firstPlan.map(({ section }) => section.name);
    expect(names).toEqual(["doctor", "prepare", "parity", "steps", "speed", "update-peft", "update-unsloth"]);
  });

  it("goes on after a section that fails and one that takes too long, and says what became of each", async () => {
    const out = newFolder();
    // "unknown" is no section that section.ts knows, and the doctor has less time than a process takes to start.
    const section = (name: string) => ({ name, about: name, run: () => Promise.resolve() });
    const plan = [
      { section: section("unknown"), minutes: 1 },
      { section: doctor, minutes: 0.0001 },
      { section: section("done-before"), minutes: 1 },
    ];
    writeFileSync(
      join(out, "done-before.json"),
      JSON.stringify({ state: "done", seconds: 3, hardware: {}, answer: 42 }),
    );
    await expect(runFirst({ ...options(out), plan })).rejects.toThrow("2 of 3 sections did not end well");
    const { sections } = results(out) as unknown as { sections: Record<string, object> };
    expect(sections.unknown).toEqual({ state: "failed" });
    expect(sections.doctor).toMatchObject({ state: "cut off after 0 minutes" });
    expect(sections["done-before"]).toEqual({ state: "done", seconds: 3, answer: 42 });
    expect(readFileSync(join(out, "first.html"), "utf8")).toContain("done-before");
  });

  it("leaves out what the time does not suffice for", async () => {
    const out = newFolder();
    await expect(runFirst({ ...options(out), minutes: 0.01 })).rejects.toThrow("7 of 7 sections did not end well");
    expect(results(out).sections.doctor).toEqual({ state: "left out" });
  });

  it("names no folder of the user's in the file to send", () => {
    const text = withoutFolders(`${packageRoot}/build, ${join(tmpdir(), "x")}, ${join(homedir(), "runs")}`);
    expect(text).not.toContain(homedir());
    expect(text).toBe("HONE/build, TMP/x, HOME/runs");
  });

  it("puts each figure beside what was expected of that card", () => {
    const lines = linesOf(known);
    const of = (what: string) => lines.find((line) => line.what === what);
    expect(of("8 sequences, with an adapter")).toMatchObject({
      measured: "1100 tokens/s",
      expected: "2179 tokens/s",
      ratio: "0.505",
    });
    expect(of("8 sequences, without an adapter")).toMatchObject({ expected: "2500 tokens/s", ratio: "0.8" });
    expect(of("memory: learner")).toMatchObject({ measured: "3.00 GB", expected: "4.00 GB", ratio: "0.75" });
    expect(of("memory: whole card")).toMatchObject({ measured: "–", expected: "8.00 GB", ratio: "" });
  });

  it("expects of each card that was counted for what the frozen counts say, and more of more sequences", () => {
    for (const card of cards.filter(({ title }) => title !== "RTX 3090" && title !== "H200")) {
      const decode = expectedDecode(card);
      const speeds = [0, ...[1, 8, 64].map((sequences) => decode.get(sequences) ?? 0)];
      expect([card.title, speeds]).toEqual([card.title, [...new Set(speeds)].sort((a, b) => a - b)]);
    }
  });

  it("compares with nothing where there is no estimate: another card, or tiny shapes", () => {
    const other = { ...known, hardware: { ...known.hardware, gpu: "NVIDIA GeForce GTX 1660" } };
    for (const first of [other, { ...known, small: true }]) {
      const line = linesOf(first).find(({ what }) => what === "8 sequences, with an adapter");
      expect(line).toMatchObject({ measured: "1100 tokens/s", expected: "–", ratio: "" });
    }
    expect(firstPage(other)).toContain("No tokens/s were estimated for NVIDIA GeForce GTX 1660.");
  });

  it("is a page that says what a stand-in's figures mean, with problems as text and not as HTML", () => {
    const page = firstPage({ ...known, standIn: true });
    expect(page).toContain("stand-in that does not compute");
    expect(page).toContain("doctor found something &lt;wrong&gt;");
    expect(page).toContain("doctor, compiler: no C compiler – apt install gcc");
  });
});
