/** `hone replay` of runs of every kind: objectives with several updates in a step, quantised weights. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";
import { replayed, whole } from "./support/replayed.js";

const home = mkdtempSync(join(tmpdir(), "hone-replay-kinds-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

let env: Record<string, string>;
beforeAll(async () => {
  env = { HONE_PYTHON: await ensureLearnerPython() };
  await ensureTestModels(["tiny"], () => undefined);
}, 900_000);

const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts")];
const vowels = [...task, "--max-tokens", "8", "--max-turns", "1", "--group-size", "4"];

it.each([
  ["grpo", "qwen2-tiny-f16.gguf", ["--loss", "grpo", "--kl", "0.02"]],
  ["gspo", "qwen2-tiny-f16.gguf", ["--loss", "gspo", "--iterations", "2"]],
  ["cispo", "qwen2-tiny-f16.gguf", ["--loss", "cispo", "--minibatches", "2"]],
  ["quantised", "llama-tiny-q8_0.gguf", []],
] as const)("both steps of a run, bit for bit, of %s", async (name, model, options) => {
  const steps = await replayed(home, env, name, ["--model", modelPath(model), ...vowels, ...options]);
  expect(steps).toEqual([whole, whole]);
  expect(steps.at(-1)?.batch).toBe("same");
});
