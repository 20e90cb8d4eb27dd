/**
 * Agents of other frameworks, their programs unchanged, in a training run of two steps. What is trained of each is what the
 * engine draws with the rollout's seed, and nothing else: every sampled token is drawn again.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chatOf } from "../../src/chat/chat.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { stopIds } from "../../src/core/rollout/reading.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { TokenRecord } from "../../src/core/rollout/transcript.js";
import { ADAPTER_FILE } from "../../src/core/run/checkpoints.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { deriveSeed } from "../../src/core/util/random.js";
import { loadEngine } from "../../src/engine/factory.js";
import { writeF32Copy } from "../support/f32-model.js";
import { ensureLearnerPython } from "../support/python.js";
import { frameworks as all, isPlaced, placePrograms } from "./frameworks.js";
import { type Installed, installFrameworks } from "./install.js";

const STEPS = [1, 2];
const GROUP = 2;
const CONTEXT = 8192;

/** Of tokens: from the first up to the one after the last. */
type Span = [from: number, to: number];

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
  if (typeof installed !== "string") placePrograms(installed, folder);
  const frameworks = all.filter((framework) => isPlaced(framework, folder));
  const missing = all.filter((framework) => !isPlaced(framework, folder));
  /** In f32 the same seed draws the same tokens, whatever else is in a batch. */
  const model = join(folder, "tiny-f32.gguf");
  let engine: LocalEngine;
  let store: RunStore;

  beforeAll(async () => {
    await writeF32Copy(join(packageRoot, "models/tiny/tiny.gguf"), model);
    allowContext(model);
    const options = {
      task: join(packageRoot, "test/frameworks/task.ts"),
      model,
      python: await ensureLearnerPython(),
      gpu: "off",
      steps: STEPS.length,
      "groups-per-step": frameworks.length,
      "group-size": GROUP,
      concurrency: 3,
      "max-turns": 6,
      "max-tokens": 60,
      context: CONTEXT,
      "validate-every": 0,
      "validate-n": 1,
      // One that fails does not keep the others from being tested.
      "max-exceptions": 1000,
      "learning-rate": 1e-2,
      warmup: 0,
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const { pythons } = installed as Installed;
    const env = { ...process.env, FRAMEWORK_PROGRAMS: folder, FRAMEWORK_PYTHONS: JSON.stringify(pythons) };
    const cli = join(packageRoot, "dist/src/cli.js");
    const { status, stderr } = spawnSync(process.execPath, [cli, "train", ...args], {
      cwd: folder,
      encoding: "utf8",
      env,
    });
    expect(status, stderr).toBe(0);
    store = RunStore.read(join(run, "run.sqlite"));
    engine = await loadEngine({ model, gpu: false, threads: 1, lanes: 1, sequences: 1, contextPerSequence: CONTEXT });
  });
  afterAll(async () => {
    store?.close();
    await engine?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Tokens that are sampled without a given one between them: a turn each. */
  function turnsIn({ sampled }: TokenRecord): Span[] {
    const edges = [...sampled, 0].flatMap((flag, at) => (flag !== (sampled[at - 1] ?? 0) ? [at] : []));
    return edges.flatMap((from, at) => (at % 2 === 0 ? [[from, edges[at + 1] as number]] : []));
  }

  const stop = () => stopIds(chatOf(engine), engine.info.endTokens);

  /**
   * Tokens of a turn that are not those which the engine draws with this seed, given the tokens before them. Rounding moves the
   * bounds between tokens: where many are about as likely, it may be the neighbour that is drawn.
   */
  async function departures({ ids }: TokenRecord, [from, to]: Span, seed: number): Promise<number> {
    let count = 0;
    for (let at = from; at < to; ) {
      const sequence = engine.open(Int32Array.from(ids.slice(0, at)));
      const options = { maxTokens: to - at, sampling: { temperature: 1, seed }, stop: stop() };
      const { tokens } = await sequence.generate(options);
      sequence.close();
      const same = tokens.findIndex((id, index) => id !== ids[at + index]);
      const agreed = same < 0 ? tokens.length : same;
      at += agreed;
      if (at < to) count++;
      at++;
    }
    return count;
  }

  /** The recorded tokens have the recorded log-probabilities, and are those that the rollout's seeds draw. */
  async function isDrawn({ seed, tokens, branches = [] }: Trajectory): Promise<void> {
    const sequences = [tokens as TokenRecord, ...branches.map((branch) => branch.tokens)];
    // The first sequence draws by the rollout's seed, every further one by another.
    const seeds = sequences.map((_, number) => (number === 0 ? seed : deriveSeed(seed, "sequence", number)));
    for (const [number, sequence] of sequences.entries()) {
      // Its own seed is tried first; turns that it shares with another draw by that one's.
      const likely = [seeds[number] as number, ...seeds.filter((_, other) => other !== number)];
      const scores = await engine.score(Int32Array.from(sequence.ids));
      for (const turn of turnsIn(sequence)) {
        const [from, to] = turn;
        for (let at = from; at < to; at++) {
          expect(Math.abs((scores[at - 1] as number) - (sequence.logprobs[at] as number))).toBeLessThan(1e-3);
        }
        let least = Number.POSITIVE_INFINITY;
        for (const one of likely) if (least > 0) least = Math.min(least, await departures(sequence, turn, one));
        const text = engine.detokenize(sequence.ids.slice(from, to), { special: true });
        expect(least, text).toBeLessThanOrEqual((to - from) / 10);
      }
    }
  }

  test.each(frameworks)("$name: two training steps, of tokens that the engine draws", async ({ name, rewrites }) => {
    for (const step of STEPS) {
      const before = join(run, "checkpoints", String(step - 1).padStart(4, "0"), ADAPTER_FILE);
      await engine.useAdapter(step === 1 ? null : before);
      const rollouts = store.rollouts("train", step).filter(({ scenario }) => scenario.id === name);
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

  test.skip.each(missing)("$name (skipped: the framework's repository cannot be reached)", () => undefined);

  test("both steps learn from all groups with a spread, and the learner finds the engine's probabilities", () => {
    const steps = store.steps().slice(1);
    expect(steps).toHaveLength(STEPS.length);
    for (const { step, metrics } of steps) {
      expect(metrics).toMatchObject({ skipped: null, failures: 0 });
      // Engine and learner both compute in 32 bits: a distance in nats is rounding.
      expect(metrics?.mismatch?.mean).toBeLessThan(1e-3);
      const rollouts = store.rollouts("train", step);
      const groups = frameworks.map(({ name }) => rollouts.filter(({ scenario }) => scenario.id === name));
      const spread = groups.filter((group) => new Set(group.map(({ reward }) => reward.reward)).size > 1);
      expect(spread.length).toBeGreaterThan(frameworks.length / 4);
      const sampled = spread.flat().reduce((sum, { completionTokens }) => sum + completionTokens, 0);
      expect(metrics?.sampled_tokens).toBe(sampled);
    }
  });
});
