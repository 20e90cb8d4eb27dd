/** Blocks of README and docs/ that take minutes, as they are written, made smaller by environment variables. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { blocksOf, blocksOfAll } from "./blocks.js";
import { folderOf, runBlock } from "./shell.js";

/** Smaller where a line does not say otherwise; large enough that the tiny model is rewarded in each step. */
const small = {
  HONE_GPU: "off",
  HONE_MAILBOXES: "40",
  HONE_GROUPS_PER_STEP: "8",
  HONE_GROUP_SIZE: "8",
  HONE_VALIDATE_N: "8",
  HONE_N: "16",
};
/** Pages that go on with the run of another. */
const after: Readonly<Record<string, string>> = { "docs/run-folder.md": "docs/training.md" };
/** What the text promises. */
const made: Readonly<Record<string, readonly string[]>> = {
  "docs/training.md": [
    ".hone/email/models/tiny/metrics.jsonl",
    ".hone/email/models/tiny/checkpoints/0010/adapter.gguf",
  ],
  "docs/run-folder.md": ["metrics.csv", "report.html"],
  "docs/library.md": [".hone/email/models/own-loop/checkpoints/0010/adapter/adapter_model.safetensors"],
};

const folders = new Map<string, string>();
let python: string;
beforeAll(async () => {
  python = await ensureLearnerPython();
});
afterAll(() => {
  for (const folder of folders.values()) rmSync(folder, { recursive: true, force: true });
});

const slow = [...new Set(blocksOfAll("slow").map(({ page }) => page))];
const inOrder = [
  ...slow.filter((page) => after[page] === undefined),
  ...slow.filter((page) => after[page] !== undefined),
];

it.each(inOrder)("the long blocks of %s", { timeout: 3_600_000 }, async (page) => {
  const folder = folders.get(after[page] ?? page) ?? folderOf(page);
  folders.set(page, folder);
  for (const block of blocksOf(page).filter(({ treatment }) => treatment === "slow")) {
    for (const { line, status, stderr } of await runBlock(block, folder, { ...small, HONE_PYTHON: python })) {
      expect([page, line, status, status === 0 ? "" : stderr]).toEqual([page, line, 0, ""]);
    }
  }
  for (const file of made[page] ?? []) expect([file, existsSync(join(folder, file))]).toEqual([file, true]);
  if (page === "docs/run-folder.md") {
    const [header = "", ...rows] = readFileSync(join(folder, "metrics.csv"), "utf8").trimEnd().split("\n");
    expect(header.split(",")[0]).toBe("step");
    // The start, which has a validation alone, and ten steps.
    expect(rows.map((row) => Number(row.split(",")[0]))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  }
});
