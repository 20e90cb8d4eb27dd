/**
 * Agents of other frameworks, their programs unchanged, in a training run of two steps. What is trained of each is what the
 * engine draws with the rollout's seed, and nothing else: every sampled token is drawn again.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type LocalEngine, loadEngine } from "../../src/engine/index.js";
import { chatOf } from "../../src/rollout/index.js";
import { stopIds } from "../../src/rollout/reading.js";
import type { Trajectory } from "../../src/rollout/trajectory.js";
import type { TokenRecord } from "../../src/rollout/transcript.js";
import { ADAPTER_FILE } from "../../src/run/checkpoints.js";
import { RunStore } from "../../src/run/store.js";
import { mismatchLimit } from "../../src/train/mismatch.js";
import { packageRoot } from "../../src/util/paths.js";
import { deriveSeed } from "../../src/util/random.js";
import { writeF32Copy } from "../support/f32-model.js";
import { ensureLearnerPython } from "../support/python.js";
import { frameworks, placePrograms } from "./frameworks.js";
import { type Installed, installFrameworks } from "./install.js";

const STEPS = [1, 2];
const GROUP = 2;
const CONTEXT = 8192;

/** The frameworks, or why they cannot be had here. */
const installed = await installFrameworks().catch((error: Error) => error.message);
const why = typeof installed === "string" ? ` (skipped: ${installed})` : "";

/** Lets a model take longer prompts than it was trained with: those of smolagents have 5,000 of its tokens. */
function allowContext(model: string): void {
  const file = readFileSync(model);
  const key = "qwen2.context_length";
  // The type of the value follows, then the value.
  file.writeUInt32LE(CONTEXT, file.indexOf(key) + key.length + 4);
  writeFileSync(model, file);
}

describe.skipIf(why !== "")(`frameworks${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-frameworks-"));
  const run = join(folder, ".hone/frameworks/models/tiny-f32");
  /** In f32 the same seed draws the same tokens, whatever else is in a batch. */
  const model = join(folder, "tiny-f32.gguf");
  let engine: LocalEngine;
  let store: RunStore;

  beforeAll(async () => {
    placePrograms(installed as Installed, folder);
    await writeF32Copy(join(packageRoot, "models/tiny/tiny.gguf"), model);
    allowContext(model);
    const options = {
      ...{ task: join(packageRoot, "test/frameworks/task.ts"), model, python: await ensureLearnerPython(), gpu: "off" },
      ...{ steps: STEPS.length, "groups-per-step": frameworks.length, "group-size": GROUP, concurrency: 3 },
      ...{ "max-turns": 6, "max-tokens": 60, context: CONTEXT, "validate-every": 0, "validate-n": 1 },
      // One that fails does not keep the others from being tested.
      ...{ "max-exceptions": 1000, "learning-rate": 1e-2, warmup: 0 },
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const { python } = installed as Installed;
    const env = { ...process.env, FRAMEWORK_PROGRAMS: folder, FRAMEWORK_PYTHON: python };
    const cli = join(packageRoot, "dist/src/cli.js");
    const { status, stderr } = spawnSync(process.execPath, [cli, "train", ...args], {
      cwd: folder,
      encoding: "utf8",
      env,
    });
    expect(status, stderr).toBe(0);
    if (process.env.SHOW) console.log(stderr);
    store = RunStore.read(join(run, "run.sqlite"));
    engine = await loadEngine({ model, gpu: false, threads: 1, lanes: 1, sequences: 1, contextPerSequence: CONTEXT });
  });
  afterAll(async () => {
    store?.close();
    await engine?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Positions at which turns begin and end: from the first sampled token up to the one after the last. */
  function turnsIn({ sampled }: TokenRecord): [from: number, to: number][] {
    const edges = [...sampled, 0].flatMap((flag, at) => (flag !== (sampled[at - 1] ?? 0) ? [at] : []));
    return edges.flatMap((from, at) => (at % 2 === 0 ? [[from, edges[at + 1] as number]] : []));
  }

  /** Whether the engine draws this turn with this seed, with the log-probabilities that are recorded. */
  async function draws({ ids, logprobs }: TokenRecord, [from, to]: [number, number], seed: number): Promise<boolean> {
    const sequence = engine.open(Int32Array.from(ids.slice(0, from)));
    const { tokens, logprobs: drawn } = await sequence.generate({
      maxTokens: to - from,
      sampling: { temperature: 1, seed },
      stop: stopIds(chatOf(engine), engine.info.endTokens),
    });
    sequence.close();
    const same = [...tokens].every((id, at) => id === ids[from + at]) && tokens.length === to - from;
    if (same) {
      drawn.forEach((logprob, at) => {
        expect(Math.abs(Math.min(logprob, 0) - (logprobs[from + at] as number))).toBeLessThan(1e-3);
      });
    }
    return same;
  }

  async function isDrawn({ seed, tokens, branches = [] }: Trajectory): Promise<void> {
    const sequences = [tokens as TokenRecord, ...branches.map((branch) => branch.tokens)];
    // The first sequence draws by the rollout's seed, every further one by another.
    const seeds = sequences.map((_, number) => (number === 0 ? seed : deriveSeed(seed, "sequence", number)));
    for (const sequence of sequences) {
      for (const turn of turnsIn(sequence)) {
        let found = false;
        for (const one of seeds) found ||= await draws(sequence, turn, one);
        expect(found, engine.detokenize(sequence.ids.slice(...turn), { special: true })).toBe(true);
      }
    }
  }

  test.each(frameworks)("$name: two training steps, of tokens that the engine draws", async ({ name, rewrites }) => {
    for (const step of STEPS) {
      const before = join(run, "checkpoints", String(step - 1).padStart(4, "0"), ADAPTER_FILE);
      await engine.useAdapter(step === 1 ? null : before);
      const rollouts = store.rollouts("train", step).filter(({ scenario }) => scenario.id === name);
      if (process.env.SHOW)
        for (const one of rollouts)
          console.log(
            step,
            name,
            one.end,
            one.turns,
            JSON.stringify(one.agent),
            one.reward.reward,
            one.tokens?.ids.length,
            one.seconds,
          );
      expect(rollouts).toHaveLength(GROUP);
      for (const { tokens, branches = [], agent, completionTokens } of rollouts) {
        const sequences = [tokens as TokenRecord, ...branches.map((branch) => branch.tokens)];
        const turns = sequences.flatMap(turnsIn);
        // Every turn of the model is trained, once.
        expect(turns).toHaveLength(agent?.completions as number);
        expect(turns.reduce((sum, [from, to]) => sum + to - from, 0)).toBe(completionTokens);
        if (!rewrites) expect(agent).toMatchObject({ sequences: 1 });
        if (!rewrites) expect(agent).not.toHaveProperty("history_rewritten");
      }
      await isDrawn(rollouts[0] as Trajectory);
    }
  });

  test("both steps learn from all groups with a spread, and the learner finds the engine's probabilities", () => {
    const steps = store.steps().slice(1);
    expect(steps).toHaveLength(STEPS.length);
    for (const { step, metrics } of steps) {
      expect(metrics).toMatchObject({ skipped: null, failures: 0 });
      expect(metrics?.mismatch?.mean).toBeLessThan(mismatchLimit("F32"));
      const rollouts = store.rollouts("train", step);
      const groups = frameworks.map(({ name }) => rollouts.filter(({ scenario }) => scenario.id === name));
      const spread = groups.filter((group) => new Set(group.map(({ reward }) => reward.reward)).size > 1);
      expect(spread.length).toBeGreaterThan(frameworks.length / 2);
      const sampled = spread.flat().reduce((sum, { completionTokens }) => sum + completionTokens, 0);
      expect(metrics?.sampled_tokens).toBe(sampled);
    }
  });
});
