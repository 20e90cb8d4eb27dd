/**
 * Whole email rollouts a second against the same agent talking to llama-server over HTTP: the same libraries, weights,
 * threads, limits and tools, as many slots as rollouts at once, prompt cache on. Their agent is the one of
 * `--agent-url`, which has its tools through the server's chat endpoint (--jinja). The server holds calls to a grammar,
 * which ours does not: its rollouts make fewer mistakes and are shorter. Rows on written tokens therefore stand beside
 * those on rollouts; both come of the same runs.
 */
import { modelFile, trainedContext } from "../../src/engine/index.js";
import type { PlayerSpec } from "../../src/rollout/index.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, describe, median, modelName } from "../measure.js";
import { enginePlayer, meansOf, playEmail, played, type RolloutSettings, startServer } from "../rollouts.js";
import type { Bench, BenchContext, Row } from "../row.js";

const name = "rollout/llama-server";
const ROLLOUTS = 128;
const CONTEXT = 4096;

/** One of the two that are compared, with what it did so far. */
class Side {
  readonly #player: PlayerSpec;
  readonly #settings: Omit<RolloutSettings, "step">;
  readonly tokensPerSecond: number[] = [];
  #rollouts = 0;
  #turns = 0;
  #tokens = 0;
  #failures = 0;

  constructor(player: PlayerSpec, settings: Omit<RolloutSettings, "step">) {
    this.#player = player;
    this.#settings = settings;
  }

  /** Once before a clock counts. */
  async warmUp(): Promise<void> {
    await playEmail(this.#player, { ...this.#settings, scenarios: 1, step: 1000 });
  }

  /** Rollouts a second. */
  async play(step: number): Promise<number> {
    const result = await playEmail(this.#player, { ...this.#settings, step });
    const { turns, tokens } = meansOf(result);
    const finished = result.groups.flat().length;
    this.#rollouts += finished;
    this.#turns += turns * finished;
    this.#tokens += tokens * finished;
    this.#failures += result.failures.length;
    this.tokensPerSecond.push((tokens * finished) / result.seconds);
    return played(result) / result.seconds;
  }

  about(): string {
    const each = (sum: number) => (sum / Math.max(1, this.#rollouts)).toFixed(1);
    const failures = this.#failures > 0 ? `, ${this.#failures} broken off by the server` : "";
    return `${each(this.#turns)} turns and ${each(this.#tokens)} written tokens a rollout${failures}`;
  }
}

async function compareGroups(context: BenchContext, model: string, concurrency: number, group: number): Promise<Row[]> {
  const contextPerSequence = Math.min(CONTEXT, await trainedContext(model));
  const engine = await context.load({ model, sequences: concurrency, contextPerSequence });
  const settings = { scenarios: ROLLOUTS / group, group, concurrency, maxTurns: 10, maxTokens: 256 };
  try {
    const program = await buildLlamaTool("llama-server", context.say);
    const server = await startServer(program, engine, settings.maxTokens);
    try {
      const ours = new Side(enginePlayer(engine), settings);
      const theirs = new Side(server.player, settings);
      for (const side of [ours, theirs]) await side.warmUp();
      // Both sides of a round play the same questions; every round has others.
      const steps = { ours: 0, theirs: 0 };
      const of = { model: modelName(model), sequences: concurrency };
      const rollouts = await compare(
        context,
        { ...of, name: `${name}/group-${group}`, unit: "rollouts/s", target: "ratio >= 1.5" },
        "more",
        { ours: () => ours.play(steps.ours++), theirs: () => theirs.play(steps.theirs++) },
      );
      const note = `ours: ${ours.about()}; theirs: ${theirs.about()}, calls held to a grammar, no log-probabilities`;
      const pairs = ours.tokensPerSecond.map((speed, i) => ({
        ours: speed,
        theirs: theirs.tokensPerSecond[i] as number,
      }));
      const tokens: Row = {
        ...of,
        name: `${name}/group-${group}/tokens`,
        ours: median(pairs.map((pair) => pair.ours)),
        theirs: median(pairs.map((pair) => pair.theirs)),
        ratio: median(pairs.map((pair) => pair.ours / pair.theirs)),
        unit: "tokens/s",
        target: "",
        note: "written tokens of the same runs",
        rounds: pairs,
      };
      context.say(`${describe(tokens)}\n${note}`);
      return [{ ...rollouts, note }, tokens];
    } finally {
      await server.stop();
    }
  } finally {
    await engine.close();
  }
}

export const bench: Bench = {
  name,
  about: "whole email rollouts a second against the same agent on llama-server, groups of 4 and 8",
  models: [],
  async run(context) {
    const concurrency = context.sequences?.[0] ?? 16;
    const model = context.model ?? modelFile("tiny");
    const rows: Row[] = [];
    for (const group of [4, 8]) rows.push(...(await compareGroups(context, model, concurrency, group)));
    return rows;
  },
};
