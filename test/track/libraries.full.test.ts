/** Runs in TensorBoard and in W&B, read back by their own readers. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { metricsLine, type StepRow, type ValidationRow } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { figuresOf, validationFigures, withZeros } from "../../src/insight/track/figures.js";
import type { TrackerName } from "../../src/insight/track/names.js";
import { type TrackedRun, Tracking } from "../../src/insight/track/tracking.js";
import { trajectoryOf } from "../train/support/fakes.js";
import { makeRun } from "../view/support/run.js";
import { KEY, lack, readTensorBoard, trackerPython, wandbSync } from "./support/trackers.js";
import { wandbServer } from "./support/wandb-server.js";

const base = mkdtempSync(join(tmpdir(), "hone-track-"));
const home = join(base, "home");
mkdirSync(home);
/** Nothing of the user's own set-up is a part of a test. */
const before = { ...process.env };
beforeEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith("WANDB_")) delete process.env[name];
  process.env.HOME = home;
});
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  process.env = { ...before };
  await Promise.all(closers.splice(0).map((close) => close()));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

let runs = 0;
/** A run of 4 steps that lies in a store, validated at its start and its end. */
function madeRun() {
  const folder = makeRun(base, `run${++runs}`, { steps: 4 });
  const store = RunStore.read(join(folder, "run.sqlite"));
  const [record, steps, validations] = [store.record(), store.steps(), store.validations()];
  store.close();
  if (!record) throw new Error("no record");
  return { folder, record, steps, validations };
}

type Made = ReturnType<typeof madeRun>;

/**
 * What a call of `yarn train` tells that goes on after `from` and comes to `to`. One that is interrupted is ended in the
 * validation of `to`; the call after it begins with that validation.
 */
async function trained(
  { folder, record, steps, validations }: Made,
  names: TrackerName[],
  from: number,
  to: number,
  { interrupted = false, after = false } = {},
) {
  const known = <T extends StepRow | ValidationRow>(rows: readonly T[]) => rows.filter(({ step }) => step <= from);
  const run: TrackedRun = {
    folder,
    record,
    project: "mail",
    steps: known(steps),
    validated: (step) => validations.length > 0 && (step === 0 || step === 4),
    validations: from === 0 ? [] : known(validations).filter(({ step }) => !(after && step === from)),
  };
  const said: string[] = [];
  // Whether it takes long enough to be told of is the machine's affair.
  const log = (line: string) => !line.includes("waiting until") && said.push(line);
  // Loading a library takes more than the usual ten seconds where cores are busy.
  const patience = 60_000;
  const tracking = new Tracking(names, run, trackerPython, log, { whole: patience, broken: patience });
  const validate = (row: ValidationRow) => {
    tracking.phase(row.step, "validation");
    tracking.rollout(trajectoryOf({ seed: 999 }));
    tracking.validation(row);
  };
  if (after) for (const row of validations) if (row.step === from) validate(row);
  for (let step = from + 1; step <= to; step++) {
    tracking.phase(step, "rollouts");
    for (let index = 0; index < 6; index++) tracking.rollout(trajectoryOf({ index, seed: step * 10 + index }));
    tracking.phase(step, "update");
    tracking.step(metricsLine(steps[step] as StepRow));
    for (const row of validations) {
      if (row.step === step ? !interrupted : step === 1 && row.step === 0) validate(row);
    }
  }
  const adapter = join(folder, "checkpoints/0004");
  mkdirSync(join(adapter, "adapter"), { recursive: true });
  writeFileSync(join(adapter, "adapter/adapter_config.json"), "{}");
  writeFileSync(join(adapter, "adapter.gguf"), "GGUF");
  const last = {
    step: 4,
    folder: join(adapter, "adapter"),
    file: join(adapter, "adapter.gguf"),
    aliases: ["final", "best"],
  };
  const whole = to === 4 && !interrupted;
  await tracking.close(whole, whole ? [last] : []);
  return said;
}

/** What each step's row has to be. */
function expected({ steps, validations }: Made): Record<string, number>[] {
  const known = new Set<string>();
  return steps.map((row) => {
    const validation = validations.find(({ step }) => step === row.step);
    const figures = row.metrics ? figuresOf(metricsLine(row)) : {};
    return withZeros({ ...figures, ...(validation ? validationFigures(validation) : {}) }, known);
  });
}

const offlineRuns = (folder: string) =>
  readdirSync(join(folder, "track/wandb"))
    .filter((name) => name.startsWith("offline-run-"))
    .sort()
    .map((name) => join(folder, "track/wandb", name));

async function server(...answers: Parameters<typeof wandbServer>) {
  const made = await wandbServer(...answers);
  closers.push(made.close);
  return made;
}

describe(`TensorBoard${lack}`, () => {
  it.skipIf(lack)("has the last step of a run that validates nothing", async () => {
    const run = { ...madeRun(), validations: [] };
    await trained(run, ["tensorboard"], 0, 4);
    const { scalars } = readTensorBoard(join(run.folder, "track/tensorboard"));
    expect(scalars["train/reward"]?.map(([step]) => step)).toEqual([1, 2, 3, 4]);
  });

  it.skipIf(lack)("opens what was written: curves, configuration, rollouts as text, the adapter's place", async () => {
    const run = madeRun();
    const said = await trained(run, ["tensorboard"], 0, 4);
    expect(said).toEqual([`tensorboard: tensorboard --logdir ${join(run.folder, "track/tensorboard")}`]);
    const { scalars, texts } = readTensorBoard(join(run.folder, "track/tensorboard"));
    const rows = expected(run);
    for (const name of new Set(rows.flatMap((row) => Object.keys(row)))) {
      const points = rows.flatMap((row, step) => (name in row ? [[step, Math.fround(row[name] as number)]] : []));
      expect(scalars[name], name).toEqual(points);
    }
    expect(texts.config?.[0]?.[1]).toContain("| learningRate | 0.0001 |");
    expect(texts.rollouts?.map(([step]) => step)).toEqual([1, 2, 3, 4]);
    expect(texts.rollouts?.[1]?.[1]).toMatch(/seed 2\d/);
    expect(texts.adapter?.[0]?.[1]).toMatch(/^final, best: .*checkpoints\/0004\/adapter$/);
  });

  it.skipIf(lack)("has each step once when a run goes on, and what an earlier call did not tell it", async () => {
    const run = madeRun();
    await trained(run, ["tensorboard"], 0, 2);
    // This call was not tracked: steps 3 and 4 of the store are told by the next.
    const said = await trained(run, ["tensorboard"], 4, 4);
    expect(said[0]).toContain("going on after step 2");
    const { scalars } = readTensorBoard(join(run.folder, "track/tensorboard"));
    expect(scalars["train/reward"]?.map(([step]) => step)).toEqual([1, 2, 3, 4]);
    expect(scalars["val/success"]?.map(([step]) => step)).toEqual([0, 4]);
  });
});

describe(`W&B${lack}`, () => {
  it.skipIf(lack)(
    "records offline without a key, and its own upload brings all of it, of several calls as one run",
    async () => {
      const run = madeRun();
      const first = await trained(run, ["wandb"], 0, 2);
      expect(first[0]).toMatch(/^wandb: offline; to upload it: wandb sync \S+offline-run-\S+$/);
      const second = await trained(run, ["wandb"], 2, 4);
      const [one, two, ...more] = offlineRuns(run.folder) as [string, string, ...string[]];
      expect(more).toEqual([]);
      const id = one.split("-").at(-1) as string;
      expect(two.endsWith(`-${id}`)).toBe(true);
      // Its library keeps nothing in the user's own folders.
      expect(existsSync(join(home, ".local"))).toBe(false);

      // As a shell reads what the last call said.
      const [, pattern = ""] = second[0]?.match(/to upload it: wandb sync (\S+)$/) ?? [];
      const folders = spawnSync("sh", ["-c", `ls -d ${pattern}`], { encoding: "utf8" })
        .stdout.trim()
        .split("\n");
      const wandb = await server();
      // The second time nothing is left to be uploaded.
      for (let time = 1; time <= 2; time++) {
        const { status, said } = await wandbSync(folders, wandb.url, home);
        expect(status, said).toBe(0);
      }
      const seen = wandb.runs.get(id);
      expect(seen?.history.map(({ _step }) => _step)).toEqual([0, 1, 2, 3, 4]);
      for (const [step, row] of expected(run).entries()) expect(seen?.history[step], `step ${step}`).toMatchObject(row);
      expect(seen?.history[3]?.rollouts).toMatchObject({ _type: "table-file", nrows: 4 });
      expect(seen?.config.learningRate).toEqual({ value: 1e-4 });
      expect(seen?.artifacts.filter((name) => name.includes("adapter"))).toEqual([
        `run${runs}-adapter:best,final,latest`,
      ]);
    },
  );

  it.skipIf(lack)("has the validation that an interrupted call did not come to in its step's row", async () => {
    const run = madeRun();
    await trained(run, ["wandb"], 0, 4, { interrupted: true });
    await trained(run, ["wandb"], 4, 4, { after: true });
    const wandb = await server();
    for (const folder of offlineRuns(run.folder)) await wandbSync([folder], wandb.url, home);
    const [seen] = wandb.runs.values();
    expect(seen?.history.map(({ _step }) => _step)).toEqual([0, 1, 2, 3, 4]);
    expect(seen?.history[4]).toMatchObject(expected(run)[4] as object);
  });

  it.skipIf(lack)("is online where the user has a key, and says where", async () => {
    const wandb = await server();
    Object.assign(process.env, { WANDB_BASE_URL: wandb.url, WANDB_API_KEY: KEY, WANDB_PROJECT: "mine" });
    const said = await trained(madeRun(), ["wandb"], 0, 4);
    expect(said).toEqual([expect.stringMatching(new RegExp(`^wandb: ${wandb.url}/people/mine/runs/`))]);
    const [seen] = wandb.runs.values();
    expect(seen?.history.map(({ _step }) => _step)).toEqual([0, 1, 2, 3, 4]);
  });

  it.skipIf(lack)("asks no server without WANDB_MODE and key, and none with WANDB_MODE=offline", async () => {
    const wandb = await server();
    process.env.WANDB_BASE_URL = wandb.url;
    await trained(madeRun(), ["wandb"], 0, 1);
    Object.assign(process.env, { WANDB_API_KEY: KEY, WANDB_MODE: "offline" });
    await trained(madeRun(), ["wandb"], 0, 1);
    expect(wandb.asked).toEqual([]);
  });

  it.skipIf(lack)("is told of all of the run once WANDB_MODE=disabled is gone", async () => {
    const run = madeRun();
    process.env.WANDB_MODE = "disabled";
    expect(await trained(run, ["wandb"], 0, 2)).toEqual(["wandb: disabled by WANDB_MODE"]);
    delete process.env.WANDB_MODE;
    await trained(run, ["wandb"], 2, 4);
    const wandb = await server();
    await wandbSync(offlineRuns(run.folder), wandb.url, home);
    const [seen] = wandb.runs.values();
    expect(seen?.history.map(({ _step }) => _step)).toEqual([0, 1, 2, 3, 4]);
  });

  it.skipIf(lack)("goes on offline where its server is down", async () => {
    const wandb = await wandbServer();
    await wandb.close();
    Object.assign(process.env, { WANDB_BASE_URL: wandb.url, WANDB_API_KEY: KEY });
    const run = madeRun();
    const said = await trained(run, ["wandb"], 0, 4);
    expect(said.join("\n")).toMatch(/W&B could not be reached .*; it is recorded offline/);
    expect(offlineRuns(run.folder).length).toBeGreaterThan(0);
    expect(JSON.parse(readFileSync(join(run.folder, "track/wandb.json"), "utf8"))).toMatchObject({ last: 4 });
  });
});

/** Processes below this one, and below those. */
function descendants(pid: number): number[] {
  const parents = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || !existsSync(`/proc/${name}/stat`)) return [];
    try {
      return [
        [Number(name), Number(readFileSync(`/proc/${name}/stat`, "utf8").split(") ")[1]?.split(" ")[1])] as const,
      ];
    } catch {
      return [];
    }
  });
  const below = (of: number): number[] =>
    parents.flatMap(([child, parent]) => (parent === of ? [child, ...below(child)] : []));
  return below(pid);
}

const alive = (pid: number) => {
  try {
    // A process that nobody has waited for yet is gone all the same.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

const noProc = process.platform === "linux" ? lack : " (skipped: processes are looked for in /proc)";

describe(`hone killed with -9${noProc}`, () => {
  it.skipIf(noProc)("leaves no tracker running, and what these had recorded is there", async () => {
    const run = madeRun();
    const script = `
import { Tracking } from ${JSON.stringify(join(packageRoot, "dist/src/insight/track/tracking.js"))};
const run = JSON.parse(process.argv[1]);
const tracking = new Tracking(["tensorboard", "wandb"], { ...run, validated: () => false }, process.argv[2], console.log);
setInterval(() => undefined, 1000);
`;
    const { folder, record, steps, validations } = run;
    const tracked = JSON.stringify({ folder, record, steps, validations, project: "mail" });
    const child = spawn(process.execPath, ["--input-type=module", "-e", script, tracked, trackerPython]);
    const recorded = (name: string) => {
      const file = join(folder, `track/${name}.json`);
      return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).last : undefined;
    };
    await expect.poll(() => [recorded("tensorboard"), recorded("wandb")]).toEqual([4, 4]);
    const below = descendants(child.pid as number);
    expect(below.length).toBeGreaterThanOrEqual(4);
    child.kill("SIGKILL");
    await expect.poll(() => below.filter(alive)).toEqual([]);
    expect(readTensorBoard(join(folder, "track/tensorboard")).scalars["train/reward"]).toHaveLength(4);
    const wandb = await server();
    const { status, said } = await wandbSync(offlineRuns(folder), wandb.url, home);
    expect(status, said).toBe(0);
    expect([...wandb.runs.values()][0]?.history).toHaveLength(5);
  });
});
