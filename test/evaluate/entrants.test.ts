/** Which players an evaluation finds, and what it keeps of them. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { optionsOf, withDefaults } from "../../src/core/config/config.js";
import { findEntrants } from "../../src/insight/evaluate/entrants.js";
import { goThrough, openFake } from "../train/support/fakes.js";

it("has the checkpoints of a run that goes on until their turn comes, though the run deletes them", async () => {
  const home = mkdtempSync(join(tmpdir(), "hone-entrants-"));
  const copies = join(home, "copies");
  mkdirSync(copies);
  const folder = join(home, "fake", "models", "one");
  await goThrough(folder);
  const run = await openFake(folder);
  const config = withDefaults(optionsOf("eval"), { home, checkpoint: ["latest"] });
  const { entrants } = await findEntrants(config, {}, copies);
  run.checkpoints.prune(new Set());
  run.close();
  const [latest] = entrants.map((one) => ("adapter" in one ? one.adapter : null));
  expect(readFileSync(latest?.path ?? "none").length).toBeGreaterThan(0);
  rmSync(home, { recursive: true });
});
