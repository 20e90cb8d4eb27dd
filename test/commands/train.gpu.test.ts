/** Rollouts and training on a GPU, by the commands as a user calls them, with conversations of some thirty tokens. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { verifyCheckpoint } from "../../src/core/run/checkpoints.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { mismatchLimit, noticeable } from "../../src/guards/mismatch.js";
import { gpu } from "../support/gpu.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-gpu-"));
const run = join(folder, ".hone", "vowels", "models", "tiny");
const cli = join(packageRoot, "dist/src/cli.js");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A turn may wait for kernels to be compiled. */
const patience = ["--turn-timeout", "900", "--rollout-timeout", "900"];
const task = [
  "--task",
  join(packageRoot, "test/train/support/vowels-on-gpu-task.ts"),
  "--max-tokens",
  "9",
  "--temperature",
  "2",
];
const small = ["--group-size", "2", "--concurrency", "2", "--context", "64", "--max-turns", "2"];
const common = [...task, "--model", "tiny", "--gpu", gpu.backend, ...small, ...patience, "--json"];

describe("yarn rollout", () => {
  it("plays on the GPU", () => {
    const args = [cli, "rollout", ...common, "--n", "2", "--out", "rollouts.jsonl"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
    expect(status, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ rollouts: 4, groups: 2, failures: [] });
    const played = readFileSync(join(folder, "rollouts.jsonl"), "utf8").trimEnd().split("\n");
    expect(played).toHaveLength(4);
  });
});

describe("yarn train", () => {
  // A software GPU takes half a minute for each.
  const STEPS = gpu.software ? 2 : 3;
  const start = (python: string) => {
    const steps = ["--steps", String(STEPS), "--groups-per-step", "2", "--validate-n", "2", "--keep", String(STEPS)];
    // Higher ones make the sampled tokens so unlikely that f16 on a GPU rounds them by a tenth of a nat.
    const rates = ["--learning-rate", "3e-3", "--warmup", "0"];
    return spawn(process.execPath, [cli, "train", ...common, ...steps, ...rates, "--python", python], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
  };
  const output = (child: ChildProcess) => {
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (text: string) => {
        said[name] += text;
      });
    }
    return said;
  };
  /** Rollouts of a step that are saved; the store can be read when the step before it has been done. */
  const saved = (step: number) => {
    if (!existsSync(join(run, "metrics.jsonl"))) return 0;
    if (readFileSync(join(run, "metrics.jsonl"), "utf8").split("\n").length < step) return 0;
    const store = RunStore.read(join(run, "run.sqlite"));
    try {
      return store.rollouts("train", step).length;
    } finally {
      store.close();
    }
  };

  it("learns from what the GPU played, and goes on after a kill in its second step", async () => {
    const python = await ensureLearnerPython();
    const killed = start(python);
    const before = output(killed);
    const ended = once(killed, "close");
    while (killed.exitCode === null && saved(2) === 0) await delay(50);
    killed.kill("SIGKILL");
    expect((await ended)[1], before.stderr).toBe("SIGKILL");
    expect(before.stderr).toMatch(/^engine: (Vulkan|CUDA), .*: (\d+) of \2 layers there, F16 weights, F16 KV/m);
    expect(before.stderr).toMatch(/^learner: \S+/m);

    const again = start(python);
    const after = output(again);
    const [status] = await once(again, "close");
    expect(status, after.stderr).toBe(0);
    expect(JSON.parse(after.stdout)).toMatchObject({ run: "tiny", steps: STEPS });

    const { devices } = JSON.parse(readFileSync(join(run, "run.json"), "utf8"));
    expect(JSON.stringify(devices)).toContain(`"backend":"${gpu.backend}"`);
    const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    const metrics = lines.map((line) => JSON.parse(line));
    expect(metrics.map(({ step }) => step)).toEqual([1, 2, 3].slice(0, STEPS));
    for (const { step, skipped } of metrics) {
      expect(skipped).toBe(null);
      await verifyCheckpoint(join(run, "checkpoints", String(step).padStart(4, "0")));
    }
    const store = RunStore.read(join(run, "run.sqlite"));
    const computed = store.steps().flatMap(({ timing }) => (timing ? [timing.numerics] : []));
    store.close();
    expect(computed).toHaveLength(STEPS);
    for (const by of computed) expect(by).toMatch(new RegExp(`^engine ${gpu.backend} .* F16 KV F16`));
    const mismatches = metrics.map(({ mismatch }) => mismatch.mean as number);
    console.log(
      `engine and learner apart, mean |Δ| of each step: ${mismatches.map((mismatch) => mismatch.toExponential(1)).join(" ")}`,
    );
    expect(mismatches[0]).toBeLessThan(mismatchLimit("F16"));
    for (const mismatch of mismatches)
      expect(mismatch).toBeLessThan(noticeable(metrics.map(({ mismatch }) => mismatch)));
  });
});
