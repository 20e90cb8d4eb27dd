/**
 * A run whose updates two ranks compute, of which one, or what started them, or hone, is killed again and again: every step
 * comes once, and the adapters are those of a run that was left alone.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { below, gone, ranksBelow } from "../support/processes.js";
import { ensureLearnerPython } from "../support/python.js";

const KILLS = 50;
const STEPS = 150;
/** Loading takes most of this: a kill comes at any time of it, or of the steps after it. Milliseconds. */
const SPAN = 16_000;
/** Steps after which one comes at the latest: on a fast machine all are done before that many kills otherwise. */
const MOST_STEPS = 2;

const home = mkdtempSync(join(tmpdir(), "hone-kill-ranks-"));
const cli = join(packageRoot, "dist/src/cli.js");
/** One rollout at a time on one thread: its tokens do not depend on time. */
const training = (run: string) => [
  ...["train", "--model", "tiny", "--task", join(packageRoot, "examples/arithmetic.ts"), "--run", run],
  ...[
    "--steps",
    String(STEPS),
    "--groups-per-step",
    "2",
    "--group-size",
    "3",
    "--max-tokens",
    "24",
    "--max-turns",
    "2",
  ],
  ...["--validate-n", "2", "--control", "random-reward", "--concurrency", "1", "--threads", "1"],
  ...["--learner-launch", "torchrun --nproc-per-node 2"],
];
const env = { ...process.env, HONE_HOME: home };
const folderOf = (run: string) => join(home, "arithmetic", "models", run);

/** What is written of its steps. */
function linesOf(run: string): string[] {
  const file = join(folderOf(run), "metrics.jsonl");
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
  return lines.filter((line) => line !== "");
}

function outcome(run: string) {
  const rows = linesOf(run).map((line) => JSON.parse(line) as Record<string, unknown>);
  const store = RunStore.read(join(folderOf(run), "run.sqlite"));
  try {
    const adapters = store.steps().map(({ step, adapter }) => ({ step, adapter }));
    const updates = rows.map(({ step, loss, grad_norm }) => ({ step, loss, grad_norm }));
    return {
      adapters,
      updates,
      distances: rows.map(({ mismatch }) => (mismatch as { mean: number } | null)?.mean ?? 0),
    };
  } finally {
    store.close();
  }
}

beforeAll(async () => {
  await ensureLearnerPython();
}, 900_000);

it("goes on to the same adapters, whichever of its processes is killed, and leaves none", async () => {
  const alone = spawnSync(process.execPath, [cli, ...training("alone")], { env, encoding: "utf8" });
  expect(alone.status, alone.stderr).toBe(0);

  const random = new Random(7);
  const killed: string[] = [];
  /** Steps that were done at the last kill. */
  let before = 0;
  for (let starts = 0; ; starts++) {
    expect(starts).toBeLessThanOrEqual(KILLS);
    const hone = spawn(process.execPath, [cli, ...training("killed")], { env, stdio: ["ignore", "ignore", "pipe"] });
    const pid = hone.pid as number;
    let said = "";
    hone.stderr.on("data", (data) => {
      said += data;
    });
    let over = false;
    const end = new Promise<number | null>((resolve) => hone.once("exit", resolve)).finally(() => {
      over = true;
    });
    while (!over && killed.length < KILLS) {
      const latest = performance.now() + random.float() * SPAN;
      do await Promise.race([end, sleep(50)]);
      while (!over && performance.now() < latest && linesOf("killed").length < before + MOST_STEPS);
      const [victim, name] = pick(pid, random);
      if (over || victim === undefined) continue;
      const every = [pid, ...below(pid).map((one) => one.pid)];
      process.kill(victim, "SIGKILL");
      killed.push(name);
      before = linesOf("killed").length;
      if (name === "hone") expect(await gone(every), `after ${killed.join(", ")}`).toBe(true);
    }
    if ((await end) === 0) break;
    expect(said, "it says in words why it ends").not.toMatch(/^\s+at .*\.js:/m);
  }
  expect(killed.length, killed.join(", ")).toBe(KILLS);
  expect(new Set(killed).size).toBeGreaterThan(1);
  const found = outcome("killed");
  expect(found.adapters.map(({ step }) => step)).toEqual(Array.from({ length: STEPS + 1 }, (_, step) => step));
  const { distances, ...whole } = outcome("alone");
  expect({ adapters: found.adapters, updates: found.updates }).toEqual(whole);
  // An engine that goes on evaluates a prompt in other pieces: a log-probability may be another in its last bit.
  for (const [at, distance] of distances.entries()) expect(found.distances[at]).toBeCloseTo(distance, 8);
});

/** One of the processes that there are now: a rank most of the time. */
function pick(pid: number, random: Random): [number | undefined, string] {
  const ranks = ranksBelow(pid);
  if (ranks.length === 0) return [undefined, ""];
  const chance = random.float();
  if (chance < 0.15) return [pid, "hone"];
  if (chance < 0.25)
    return [below(pid).find(({ words }) => words.includes("learner.launch"))?.pid, "launching process"];
  if (chance < 0.35) return [below(pid).find(({ words }) => words.includes("--no-python"))?.pid, "torchrun"];
  const number = random.integer(0, ranks.length - 1);
  return [ranks[number], `rank ${number}`];
}
