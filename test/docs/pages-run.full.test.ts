/** README, CONTRIBUTING and docs/: blocks of commands that are run as they stand there. */
import { rmSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { blocksOf, blocksOfAll } from "./blocks.js";
import { folderOf, runBlock } from "./shell.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe("blocks that are run", () => {
  // Of the lines that stand there one after the other, later ones need what earlier ones have made.
  const runnable = [...new Set(blocksOfAll("run").map(({ page }) => page))];

  it.each(runnable)("of %s", { timeout: 600_000 }, async (page) => {
    const folder = folderOf(page);
    folders.push(folder);
    for (const block of blocksOf(page).filter(({ treatment }) => treatment === "run")) {
      const ran = await runBlock(block, folder, { HONE_MAILBOXES: "10" });
      for (const { line, status, stderr } of ran) expect([page, line, status, stderr]).toEqual([page, line, 0, ""]);
    }
  });
});
