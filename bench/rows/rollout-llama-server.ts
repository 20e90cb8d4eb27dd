/**
 * Whole email rollouts a second against the same agent talking to llama-server over HTTP: the same libraries, weights,
 * threads, limits and tools, as many slots as rollouts at once, prompt cache on. Their agent is the one of
 * `--agent-url`, which has tools through the server's chat endpoint (--jinja); the server holds calls to a grammar.
 */
import { modelFile, trainedContext } from "../../src/engine/index.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, modelName } from "../measure.js";
import { enginePlayer, meansOf, playEmail, played, type RolloutSettings, startServer } from "../rollouts.js";
import type { Bench, BenchContext, Row } from "../row.js";

const name = "rollout/llama-server";

async function rowsOf(
  context: BenchContext,
  model: string,
  settings: Omit<RolloutSettings, "group" | "step">,
  room: number,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const group of [4, 8]) {
    const { concurrency } = settings;
    const contextPerSequence = Math.min(room, await trainedContext(model));
    const engine = await context.load({ model, sequences: concurrency, contextPerSequence });
    const server = await startServer(await buildLlamaTool("llama-server", context.say), engine, settings.maxTokens);
    try {
      const sides = {
        ours: { player: enginePlayer(engine), turns: 0, tokens: 0, broken: 0, n: 0 },
        theirs: { player: server.player, turns: 0, tokens: 0, broken: 0, n: 0 },
      };
      let step = 0;
      const speed = async (side: (typeof sides)["ours"]) => {
        const result = await playEmail(side.player, {
          ...settings,
          group,
          scenarios: Math.ceil(settings.scenarios / group),
          step: step++,
        });
        const { turns, tokens } = meansOf(result);
        side.turns += turns;
        side.tokens += tokens;
        side.broken += result.failures.length;
        side.n++;
        return played(result) / result.seconds;
      };
      // Both sides once before the clock counts.
      for (const side of [sides.ours, sides.theirs])
        await playEmail(side.player, { ...settings, group, scenarios: 1, step: 1000 });
      const row = {
        name: `${name}/group-${group}`,
        model: modelName(model),
        sequences: concurrency,
        unit: "rollouts/s",
      } as const;
      const result = await compare(context, { ...row, target: "ratio >= 1.5" }, "more", {
        ours: () => speed(sides.ours),
        theirs: () => speed(sides.theirs),
      });
      const about = ({ turns, tokens, broken, n }: (typeof sides)["ours"]) =>
        `${(turns / n).toFixed(1)} turns and ${(tokens / n).toFixed(0)} tokens a rollout${broken > 0 ? `, ${broken} broken off by the server` : ""}`;
      rows.push({
        ...result,
        note: `ours: ${about(sides.ours)}; theirs: ${about(sides.theirs)}, no log-probabilities asked for, calls by the chat endpoint (--jinja)`,
      });
      context.say(rows.at(-1)?.note ?? "");
    } finally {
      await server.stop();
      await engine.close();
    }
  }
  return rows;
}

export const bench: Bench = {
  name,
  about: "whole email rollouts a second against the same agent on llama-server, groups of 4 and 8",
  models: [],
  async run(context) {
    const concurrency = context.sequences?.[0] ?? 16;
    const model = context.model ?? modelFile("tiny");
    return rowsOf(context, model, { scenarios: 128, concurrency, maxTurns: 10, maxTokens: 256 }, 4096);
  },
};
