/**
 * Real steps of the tiny model with an engine that, told to load the second adapter, goes on playing the first, or never
 * loads one: it is found out at that one update, before anything is played, wherever an adapter is loaded and however small
 * the update.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { optionsOf, withDefaults } from "../../src/core/config/config.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { evaluatePlayers } from "../../src/insight/evaluate/evaluate.js";
import { trainRun } from "../../src/trainer/run.js";
import type { TrainRunOptions } from "../../src/trainer/train-options.js";
import { everything } from "../support/everything.js";
import { ensureLearnerPython } from "../support/python.js";

const engines = vi.hoisted(() => ({
  stale: false,
  /** Loads no adapter at all. */
  deaf: false,
  /** Its scores of the same tokens with the same adapter differ a little, as a GPU's may. */
  varies: false,
}));

vi.mock("../../src/engine/factory.js", async (load) => {
  const real = await load<typeof import("../../src/engine/factory.js")>();
  const loadEngine = async (options: LocalEngineOptions): Promise<LocalEngine> => {
    const engine = await real.loadEngine(options);
    let claimed: string | null = null;
    const useAdapter = async (path: string | null) => {
      if (!engines.deaf)
        await engine.useAdapter(engines.stale && path ? path.replace(/0002(?=\W+adapter)/, "0001") : path);
      claimed = path;
    };
    return new Proxy(engine, {
      get(_, name) {
        if (name === "useAdapter") return useAdapter;
        if (name === "adapter") return claimed;
        if (name === "score" && engines.varies) {
          return async (...args: Parameters<LocalEngine["score"]>) => {
            const scores = await engine.score(...args);
            return scores.map((score, i) => score + 1e-6 * Math.sin(i * performance.now()));
          };
        }
        const value = Reflect.get(engine, name, engine);
        return typeof value === "function" ? value.bind(engine) : value;
      },
    });
  };
  return { ...real, loadEngine };
});

const home = mkdtempSync(join(tmpdir(), "hone-stale-"));
const folder = join(home, "email", "models", "tiny");
const signal = new AbortController().signal;

function stored() {
  const store = RunStore.read(join(folder, "run.sqlite"));
  try {
    const steps = store
      .steps()
      .map(({ step, metrics }) => ({ step, mismatch: metrics?.mismatch, probe: metrics?.probe }));
    // The rollouts that are kept of the step after the last.
    return { steps, next: store.rollouts("train", steps.length).length };
  } finally {
    store.close();
  }
}

describe("an engine that keeps the adapter of one update before", () => {
  let python: string;

  async function trainTo(steps: number, more: TrainRunOptions = {}) {
    const given = {
      home,
      model: "tiny",
      steps,
      groupsPerStep: 3,
      groupSize: 4,
      maxTurns: 6,
      validateN: 1,
      validateEvery: 100,
      learningRate: 5e-3,
      finalLearningRate: 5e-3,
      warmup: 0,
      // Coins for rewards, since those of untrained rollouts are often equal, and less certain tokens, which an update moves further.
      control: "random-reward" as const,
      temperature: 1.5,
      threads: 1,
      keep: 9,
      python,
      ...more,
    };
    return trainRun(given, { signal });
  }

  beforeAll(async () => {
    python = await ensureLearnerPython();
    const cli = join(packageRoot, "dist/src/cli.js");
    const made = spawnSync(process.execPath, [cli, "build-db", "--mailboxes", "20", "--home", home]);
    expect(made.status).toBe(0);
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  it("is stopped at that update; the step is taken again when the engine is in order", async () => {
    engines.stale = true;
    await expect(trainTo(3)).rejects.toThrow(
      /^the engine still plays the adapter before step 2: on its probe .*; the step was taken back\.\s/,
    );
    const stopped = stored();
    expect(stopped.steps.map(({ step }) => step)).toEqual([0, 1]);

    engines.stale = false;
    await trainTo(2);
    const { steps } = stored();
    expect(steps.map(({ step }) => step)).toEqual([0, 1, 2]);
    for (const { probe } of steps.slice(1)) {
      // The engine plays the new policy: what is left is rounding, not an update.
      expect((probe?.before ?? 0) / (probe?.after ?? 1)).toBeGreaterThan(3);
    }
  });

  it("is stopped when the run goes on, before anything is played", async () => {
    engines.stale = true;
    await expect(trainTo(3)).rejects.toThrow("the engine still plays the adapter before checkpoint 2: on its probe");
    expect(stored().next).toBe(0);
  });

  it("is stopped in an evaluation", async () => {
    engines.stale = true;
    const evaluate = (checkpoint: string[]) => {
      const given = { home, checkpoint, n: 1, threads: 1 };
      const view = { begin: () => undefined, rollout: () => undefined, log: () => undefined };
      return evaluatePlayers(withDefaults(optionsOf("eval"), given), given, { signal, view });
    };
    await expect(evaluate(["2"])).rejects.toThrow("the engine still plays the adapter before checkpoint 2");
    const { columns } = (await evaluate(["base", "1"])).matrix;
    expect(columns.map(({ result }) => result?.figures.n)).toEqual([1, 1]);
    // The checkpoint that does not play loses its own column alone.
    const [base, second] = (await evaluate(["base", "2"])).matrix.columns;
    expect(base?.result?.figures.n).toBe(1);
    expect(second?.problem).toMatch(/^the engine still plays the adapter before checkpoint 2/);
  });

  if (everything) {
    it("is stopped by what the step's own tokens say where a checkpoint has no probe, as older ones have none", async () => {
      const checkpoint = join(folder, "checkpoints", "0002");
      const manifest = JSON.parse(readFileSync(join(checkpoint, "manifest.json"), "utf8"));
      delete manifest.files["probe.json"];
      writeFileSync(join(checkpoint, "manifest.json"), JSON.stringify(manifest));
      rmSync(join(checkpoint, "probe.json"));

      engines.stale = true;
      await expect(trainTo(3)).rejects.toThrow(
        /^the engine played this step with an adapter older than checkpoint 2: the log-probabilities of its tokens follow checkpoint 1 /,
      );
      const stopped = stored();
      expect(stopped.steps).toHaveLength(3);
      expect(stopped.next).toBe(0);

      engines.stale = false;
      await trainTo(3);
      expect(stored().steps).toHaveLength(4);
    });
  }

  describe("or that never loads any, at a small learning rate", () => {
    const at = (learningRate: number, run: string) => ({ run, learningRate, finalLearningRate: learningRate });
    afterEach(() => {
      engines.stale = engines.deaf = engines.varies = false;
    });

    it("is stopped at the first update", async () => {
      engines.deaf = true;
      await expect(trainTo(9, at(1e-5, "deaf"))).rejects.toThrow(
        /^the engine still plays the adapter before step 1: on its probe loading it did not change a single log-probability; .*; the step was taken back\.\s/,
      );
    });

    if (everything) {
      it("is stopped by the tokens that it plays then, where its scores are never twice the same", async () => {
        engines.deaf = engines.varies = true;
        await expect(trainTo(9, { ...at(1e-5, "varies"), groupSize: 8 })).rejects.toThrow(
          /^the engine (played this step with an adapter older than checkpoint|still plays the adapter before|lags behind the learner)/,
        );
      });
    }

    it("is no alarm where the engine loads them", async () => {
      await trainTo(3, at(1e-5, "right"));
      const store = RunStore.read(join(home, "email", "models", "right", "run.sqlite"));
      const earlier = store.steps().map(({ metrics }) => metrics?.played?.earlier);
      store.close();
      // The first has no policy before it.
      expect(earlier).toEqual([undefined, undefined, null, expect.toBeOneOf([null, 1])]);
    });
  });
});
