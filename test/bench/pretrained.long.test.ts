/**
 * Qwen2.5-Coder with its published weights, from the package index: of the shape that the catalogue has for the family, its turns are
 * words, and its training is planned. The 1.5B is 1.1 GB.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ensurePretrained } from "../../bench/pretrained.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelShape } from "../../src/engine/models.js";
import { catalogue } from "../../src/machine/models/catalogue.js";
import { runHone } from "../models/support/cli.js";

const home = mkdtempSync(join(tmpdir(), "hone-pretrained-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

it.each([
  ["qwen2.5-coder-0.5b", "qwen2.5-0.5b"],
  ["qwen2.5-coder-1.5b", "qwen2.5-1.5b"],
] as const)("%s plays, and its training is planned", async (name, family) => {
  const file = await ensurePretrained(name, () => undefined);
  const entry = catalogue().get(family);
  const { tied: _, ...sizes } = (entry && "shape" in entry && entry.shape) || expect.fail(`${family} has no shape`);
  expect(await modelShape(file)).toMatchObject({ architecture: "qwen2", ...sizes });

  const shown = await runHone(home, ["models", "show", file], {});
  expect(shown.stdout).toMatch(/trains here .*planned/);

  const task = ["--task", join(packageRoot, "examples/what-kind.ts"), "--n", "1", "--group-size", "2"];
  const limits = ["--max-tokens", "12", "--gpu", "off", "--out", "played.jsonl"];
  const played = await runHone(home, ["rollout", "--model", file, ...task, ...limits], {});
  expect(played.status, played.stderr).toBe(0);
  const rollouts = readFileSync(join(home, "played.jsonl"), "utf8").trim().split("\n");
  for (const rollout of rollouts) {
    const { messages } = JSON.parse(rollout) as { messages: { content: string }[] };
    // An untrained head or a wrong vocabulary writes none.
    expect(messages.at(-1)?.content).toMatch(/[a-z]{2,}/i);
  }
});
