/** What the command prints is what transformers computes. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-logprobs-"));
beforeAll(() => ensureTestModels(["tiny"], () => undefined));
afterAll(() => rmSync(folder, { recursive: true }));

it.each([["without an adapter", null] as const, ["with an adapter", "qwen2-tiny-adapter-1"] as const])(
  "yarn hone logprobs gives what transformers gives, %s",
  async (_, adapter) => {
    const random = new Random("logprobs");
    const tokens = Array.from({ length: 100 }, () => random.integer(0, 200));
    const python = await ensureLearnerPython();
    const input = { model: modelPath("qwen2-tiny"), adapter: adapter && modelPath(adapter), tokens };
    const theirs = spawnSync(python, [join(packageRoot, "test/engine/huggingface.py")], {
      input: JSON.stringify({ cases: [input] }),
      encoding: "utf8",
    });
    expect(theirs.status, theirs.stderr).toBe(0);
    const expected = (JSON.parse(theirs.stdout) as { logprobs: number[][] }).logprobs[0] as number[];

    const file = join(folder, "tokens.json");
    writeFileSync(file, JSON.stringify(tokens));
    const given = ["--model", modelPath("qwen2-tiny-f32.gguf"), "--tokens", file, "--gpu", "off", "--threads", "1"];
    const played = adapter ? ["--adapter", `${modelPath(adapter)}.gguf`] : [];
    const args = [join(packageRoot, "dist/src/cli.js"), "logprobs", ...given, ...played, "--json"];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect(status).toBe(0);
    const ours = (JSON.parse(stdout) as { logprobs: number[] }).logprobs;
    expect(ours).toHaveLength(tokens.length - 1);
    const gaps = ours.map((value, i) => Math.abs(value - (expected[i] as number)));
    // Both in f32, see huggingface.full.test.ts.
    expect(Math.max(...gaps)).toBeLessThanOrEqual(4e-4);
  },
);
