/** `hone replay` of runs of every kind: objectives with several updates in a step, quantised weights, a pretrained model. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Replayed } from "../../src/trainer/replay/types.js";
import { runHone } from "../models/support/cli.js";
import { ensureLearnerPython } from "../support/python.js";

const PRETRAINED = "smollm2-135m-q4_1";
const home = mkdtempSync(join(tmpdir(), "hone-replay-kinds-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

// pip's own configuration, and the wheels that this user has already.
const pip = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(PIP_|SSL_|REQUESTS_|https?_proxy$|no_proxy$|HOME$)/i.test(name)),
) as Record<string, string>;
const pulled = await runHone(home, ["models", "pull", PRETRAINED], pip);
const lack = pulled.stderr.includes("cannot be reached") ? " (skipped: the package index cannot be reached)" : "";

let env: Record<string, string>;
beforeAll(async () => {
  env = { ...pip, HONE_PYTHON: await ensureLearnerPython() };
  await ensureTestModels(["tiny"], () => undefined);
}, 900_000);

const here = ["--gpu", "off", "--threads", "1"];
const groups = ["--groups-per-step", "2", "--validate-n", "1"];
const vowels = [
  "--task",
  join(packageRoot, "test/train/support/vowels-task.ts"),
  "--max-tokens",
  "8",
  "--max-turns",
  "1",
  "--group-size",
  "4",
];
const words = ["--task", join(packageRoot, "examples/what-kind.ts"), "--max-tokens", "12", "--group-size", "8"];

// Else a step may have no update.
const ANY = ["--control", "random-reward"];

/** Trains a run of two steps, and replays them: results by step. */
async function replayed(name: string, options: readonly string[]) {
  const trained = await runHone(
    home,
    ["train", "--run", name, "--steps", "2", "--keep", "2", ...groups, ...here, ...options],
    env,
  );
  expect(trained.status, trained.stderr).toBe(0);
  const { status, stdout, stderr } = await runHone(home, ["replay", name, "--step", "all", "--json", ...here], env);
  expect(status, stderr).toBe(0);
  const { steps, notRebuilt } = JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as Replayed;
  expect(notRebuilt[0]).toMatch(/^the play/);
  return steps.map(({ checks }) => Object.fromEntries(checks.map(({ part, result }) => [part, result])));
}

const whole = {
  ...{ "task rewards": "same", "training rewards": "same", advantages: "same", update: "same" },
  batch: expect.stringMatching(/^(same|skipped)$/),
};

describe("both steps of a run, bit for bit, of", () => {
  it.each([
    ["grpo", "qwen2-tiny-f16.gguf", ["--loss", "grpo", "--kl", "0.02"]],
    ["gspo", "qwen2-tiny-f16.gguf", ["--loss", "gspo", "--iterations", "2"]],
    ["cispo", "qwen2-tiny-f16.gguf", ["--loss", "cispo", "--minibatches", "2"]],
    ["quantised", "llama-tiny-q8_0.gguf", []],
  ] as const)(
    "%s",
    async (name, model, options) => {
      const steps = await replayed(name, ["--model", modelPath(model), ...vowels, ...options]);
      expect(steps).toEqual([whole, whole]);
      expect(steps.at(-1)?.batch).toBe("same");
    },
    300_000,
  );

  it.skipIf(lack !== "")(
    `a pretrained model, whose own weights have 4 bits${lack}`,
    async () => {
      expect(pulled.status, pulled.stderr).toBe(0);
      const steps = await replayed("pretrained", ["--model", PRETRAINED, ...words, ...ANY, "--learning-rate", "5e-5"]);
      expect(steps).toEqual([whole, whole]);
    },
    900_000,
  );
});
