/** A model with layers of short convolutions, by the whole way of a user on the built command line. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";
import { runHone } from "./support/cli.js";

const home = mkdtempSync(join(tmpdir(), "hone-hybrid-"));
const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts"), "--gpu", "off", "--threads", "1"];
const size = ["--groups-per-step", "2", "--group-size", "4", "--max-tokens", "12", "--max-turns", "2"];
const small = [...size, "--validate-n", "1", "--context", "1024"];
const place = join(home, ".hone/vowels/models/lfm2-tiny");
let python: string;

const hone = (...args: string[]) => runHone(home, args, { HONE_PYTHON: python, HF_HUB_OFFLINE: "1" });
const train = (...more: string[]) => hone("train", "--model", modelPath("lfm2-tiny"), ...task, ...small, ...more);

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
}, 900_000);
afterAll(() => rmSync(home, { recursive: true, force: true }));

test("a folder is converted, trained, gone on with under gradient checkpointing, and replayed", async () => {
  const first = await train("--steps", "1");
  expect(first.status, first.stderr).toBe(0);
  expect(first.stdout).toContain("converting lfm2-tiny to GGUF with f16 weights, once");
  const again = await train("--steps", "2", "--gradient-checkpointing");
  expect(again.status, again.stderr).toBe(0);
  expect(again.stdout).toContain("going on after step 1 of 2");
  const store = RunStore.read(join(place, "run.sqlite"));
  const { metrics } = store.lastStep();
  store.close();
  expect(metrics?.updates).toBe(1);
  // In f16, which the engine rounds to; rows that mix rollouts are off by 0.08.
  expect(metrics?.mismatch?.mean).toBeLessThan(0.01);
  const replayed = await hone("replay", place, "--step", "2", "--gpu", "off", "--threads", "1");
  expect(replayed.status, replayed.stdout + replayed.stderr).toBe(0);
});

test("its adapter is played, and written as PEFT's files and as a merged GGUF file, which plays without it", async () => {
  const played = await hone("rollout", "--run", "lfm2-tiny", "--checkpoint", "2", "--n", "2", ...task);
  expect(played.status, played.stderr).toBe(0);
  const peft = await hone("export", place, "--checkpoint", "2", "--to", "peft", "--out", join(home, "peft"));
  expect(peft.status, peft.stderr).toBe(0);
  const config = JSON.parse(readFileSync(join(home, "peft/adapter_config.json"), "utf8"));
  const layers = ["in_proj", "k_proj", "out_proj", "q_proj", "v_proj", "w1", "w2", "w3"];
  expect([...config.target_modules].sort()).toEqual(layers);
  const model = modelPath("lfm2-tiny-f16.gguf");
  const adopted = await hone("rollout", "--model", model, "--adapter", join(home, "peft"), "--n", "2", ...task);
  expect(adopted.status, adopted.stderr).toBe(0);
  const merged = await hone(
    "export",
    place,
    "--checkpoint",
    "2",
    "--to",
    "gguf",
    "--type",
    "f16",
    "--out",
    join(home, "merged"),
  );
  expect(merged.status, merged.stderr).toBe(0);
  const file = readdirSync(join(home, "merged")).find((name) => name.endsWith(".gguf")) as string;
  const alone = await hone("rollout", "--model", join(home, "merged", file), "--n", "2", ...task);
  expect(alone.status, alone.stderr).toBe(0);
});

test("vLLM is refused for it in one line, before anything is started", async () => {
  const { status, stderr } = await hone(
    "rollout",
    "--model",
    modelPath("lfm2-tiny-f16.gguf"),
    "--engine",
    "vllm",
    ...task,
  );
  expect([status, stderr.trimEnd().split("\n")]).toEqual([
    2,
    [
      expect.stringMatching(
        /^hone: --engine vllm: .* has layers with convolutions, whose adapters were not tried on vLLM/,
      ),
    ],
  ]);
  expect(existsSync(join(home, ".hone/engine-adapters"))).toBe(false);
});
