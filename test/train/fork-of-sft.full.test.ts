/** `yarn hone sft`, then runs forked from what it wrote and from each other: whose optimizer goes on. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { readManifest } from "../../src/core/run/checkpoints.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { sft } from "../../src/trainer/sft.js";
import { LiveLearner } from "../learn/live-learner.js";
import { settings } from "../learn/support.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-fork-sft-"));
const gguf = modelPath("qwen2-tiny-f16.gguf");
const rollouts = join(folder, "rollouts.jsonl");
const imitated = join(folder, "imitated");
const live = new LiveLearner();
let python: string;

/** Returns what it said. */
function hone(...args: string[]): string {
  const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts"), "--model", gguf, "--threads", "1"];
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(packageRoot, "dist/src/cli.js"), ...args, ...task],
    {
      cwd: folder,
      encoding: "utf8",
    },
  );
  expect(status, stderr).toBe(0);
  return stdout;
}

/** One step from a checkpoint, in a run of its own. Returns the folder of the new checkpoint. */
function trainOneStep(run: string, fork: string): string {
  const small = [
    "--groups-per-step",
    "2",
    "--group-size",
    "4",
    "--max-tokens",
    "12",
    "--max-turns",
    "1",
    "--validate-n",
    "2",
  ];
  hone("train", "--run", run, "--fork", fork, "--steps", "1", "--gpu", "off", "--python", python, ...small);
  return join(folder, ".hone/vowels/models", run, "checkpoints/0001");
}

/** Updates that the optimizer of a checkpoint has done. */
async function updatesOf(checkpoint: string): Promise<number> {
  const { lora } = readManifest(checkpoint);
  const about = { ...settings(python, join(folder, "check.log")), base: { gguf }, lora, resume: checkpoint };
  return (await live.open(about)).info.updates;
}

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
}, 900_000);
afterAll(async () => {
  await live.close();
  rmSync(folder, { recursive: true, force: true });
});

it("a run forked from imitation starts with a fresh optimizer, a run forked from a run goes on with its own", async () => {
  hone(
    "rollout",
    "--n",
    "4",
    "--group-size",
    "2",
    "--max-tokens",
    "12",
    "--max-turns",
    "1",
    "--gpu",
    "off",
    "--out",
    rollouts,
  );
  const said = hone("sft", rollouts, "--out", imitated, "--update-trajectories", "2", "--python", python);
  expect(said).toContain("in the last of 4");

  const first = trainOneStep("first", imitated);
  expect(await updatesOf(first)).toBe(1);
  expect(await updatesOf(trainOneStep("second", first))).toBe(2);
});

it("a program learns from a file as the command does", async () => {
  const out = join(folder, "by-program");
  const options = { file: rollouts, model: gguf, out, updateTrajectories: 2, threads: 1, gpu: "off", python } as const;
  const task = join(packageRoot, "test/train/support/vowels-task.ts");
  const said: string[] = [];
  const summary = await sft({ ...options, task }, { log: (line) => said.push(line) });
  expect(summary).toMatchObject({ updates: 4, batch: { read: 8 }, written: join(out, "adapter.gguf") });
  expect(readFileSync(summary.written).equals(readFileSync(join(imitated, "adapter.gguf")))).toBe(true);
  expect(said).toContainEqual(expect.stringMatching(/^8 of 8 rollouts, \d+ tokens to learn$/));

  const stopped = join(folder, "stopped");
  await expect(sft({ ...options, task, out: stopped }, { signal: AbortSignal.abort() })).rejects.toThrow();
  const stop = new AbortController();
  const interrupted = { signal: stop.signal, onLearner: () => stop.abort(new Error("interrupted")) };
  await expect(sft({ ...options, task, out: stopped }, interrupted)).rejects.toThrow("interrupted");
  expect(existsSync(join(stopped, "adapter.gguf"))).toBe(false);
  await expect(sft({ model: gguf })).rejects.toThrow("sft needs file");
  await expect(sft({ ...options, file: "nowhere.jsonl" })).rejects.toThrow("sft: there is no file");
});
