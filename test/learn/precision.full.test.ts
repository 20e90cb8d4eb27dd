/**
 * What 16 bits cost on the first step of the tiny model, whose weights are f16: f16 has three bits of mantissa more than
 * bf16, so its log-probabilities are about eight times nearer to the engine's, and its gradient is nearly that of f32.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { z } from "zod";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelFile } from "../../src/engine/models.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-precision-"));
const one = z.object({ cosine: z.number(), mismatch: z.number(), overflows: z.number() });
let found: Record<"f32" | "f16" | "bf16", z.output<typeof one>>;

function hone(...args: string[]): void {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
}

beforeAll(async () => {
  const python = await ensureLearnerPython();
  hone("build-db", "--mailboxes", "20");
  const small = [
    "--steps",
    "1",
    "--groups-per-step",
    "4",
    "--group-size",
    "4",
    "--max-turns",
    "4",
    "--validate-n",
    "1",
    // Rollouts of the untrained model often have equal rewards, of which nothing is learnt; coins differ.
    "--control",
    "random-reward",
  ];
  hone("train", "--model", "tiny", "--gpu", "off", ...small, "--threads", "1", "--python", python);
  const batch = join(folder, ".hone/email/models/tiny/batch.safetensors");
  const script = fileURLToPath(new URL("precision.py", import.meta.url));
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  const printed = execFileSync(python, [script, modelFile("tiny"), batch], { encoding: "utf8", env });
  const last = printed.trim().split("\n").at(-1) as string;
  found = z.object({ f32: one, f16: one, bf16: one }).parse(JSON.parse(last));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("f16 keeps the learner near the engine, and the gradient near that of f32", () => {
  const { f32, f16, bf16 } = found;
  const figures = JSON.stringify(found);
  expect(f32.cosine, figures).toBeCloseTo(1, 6);
  expect(f16.cosine, figures).toBeGreaterThan(0.95);
  expect(bf16.cosine, figures).toBeGreaterThan(0.95);
  // Three bits are a factor of eight, of which the engine's own rounding leaves less.
  expect(bf16.mismatch / f16.mismatch, figures).toBeGreaterThan(3);
  expect(f16.overflows, figures).toBe(0);
});
