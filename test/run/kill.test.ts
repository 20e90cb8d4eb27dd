/** A run that is killed at any moment goes on to the very state of a run that was never interrupted. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";
import { goThrough } from "./support/fakes.js";
import { stateOf } from "./support/state.js";

const base = mkdtempSync(join(tmpdir(), "hone-kill-"));
/** Compiled where node_modules is found. */
const compiled = join(packageRoot, "build", "killed-run");
/** Processes at once. */
const WIDTH = 2;

interface Outcome {
  signal: NodeJS.Signals | null;
  code: number | null;
  stderr: string;
  /** What happened, in order. */
  moments: string[];
}

/** Runs killed-run.ts. */
function start(folder: string, moment: number): Promise<Outcome> {
  mkdirSync(folder, { recursive: true });
  const log = join(folder, "..", "moments.log");
  return new Promise((resolve, reject) => {
    const args = [join(compiled, "killed-run.js"), folder, log, String(moment)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      resolve({ code, signal, stderr, moments: readFileSync(log, "utf8").trimEnd().split("\n") });
    });
  });
}

/** Kills a run at `moment`, lets it go on to its end, and compares. */
async function killAndGoOn(moment: number, expected: ReturnType<typeof stateOf>): Promise<void> {
  const folder = join(base, String(moment), "run");
  const killed = await start(folder, moment);
  expect(killed.signal, killed.stderr).toBe("SIGKILL");
  const where = `killed before moment ${moment}, ${killed.moments.at(-1)}`;

  const played = await goThrough(folder);
  expect(stateOf(folder), where).toEqual(expected);

  // A rollout comes twice only when the end came before it could be saved.
  const again = played.filter((name) => killed.moments.includes(name));
  const unsaved = killed.moments.slice(-2).filter((name) => name.startsWith("played"));
  expect(again, where).toEqual(unsaved);
  rmSync(join(folder, ".."), { recursive: true });
}

describe("a killed run", () => {
  let expected: ReturnType<typeof stateOf>;
  let moments: string[];

  beforeAll(async () => {
    await build({
      root: packageRoot,
      configFile: false,
      logLevel: "warn",
      build: { ssr: "test/run/support/killed-run.ts", outDir: compiled, target: "node20", emptyOutDir: true },
    });
    const whole = await start(join(base, "whole", "run"), 0);
    expect(whole.code, whole.stderr).toBe(0);
    expected = stateOf(join(base, "whole", "run"));
    moments = whole.moments;
  });

  afterAll(() => rmSync(base, { recursive: true, force: true }));

  it("is compared with one that did everything there is to do", () => {
    expect(expected.validations).toHaveLength(3);
    expect(expected.metrics).toHaveLength(2);
    expect(moments.filter((name) => name === "learner ends")).toHaveLength(2);
    expect(new Set(expected.steps.map((row) => (row as { adapter: string }).adapter)).size).toBe(3);
  });

  it("goes on to the same state, whenever it was killed, and repeats no saved rollout", async () => {
    const queue = moments.map((_, index) => index + 1);
    const work = async () => {
      for (let moment = queue.shift(); moment !== undefined; moment = queue.shift())
        await killAndGoOn(moment, expected);
    };
    await Promise.all(Array.from({ length: WIDTH }, work));
  }, 600_000);
});
