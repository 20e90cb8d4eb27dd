/**
 * Whole email rollouts a second of agents beside the built-in loop: the same scenarios, seeds, tools and reward. A round
 * is a step of training: its worker threads start and import the agent's packages. The tiny model's turns take
 * milliseconds, so that the time of the agent's own code weighs most.
 */
import { fileURLToPath } from "node:url";
import { modelFile, trainedContext } from "../../src/engine/index.js";
import { compare, modelName } from "../measure.js";
import { enginePlayer, meansOf, playEmail, played } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

const name = "rollout/agents";

/** Times of the built-in loop's wall time that are allowed. */
const agents = [
  { agent: "ai-sdk", file: "mail-ai-sdk.js", most: 1.05 },
  { agent: "http", file: "mail-http.js", most: 1.15 },
];

export const bench: Bench = {
  name,
  about: "whole email rollouts a second of an agent of the AI SDK and of one over HTTP, beside the built-in loop",
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const sequences = context.sequences?.[0] ?? 16;
    const contextPerSequence = Math.min(4096, await trainedContext(model));
    const rows: Row[] = [];
    const engine = await context.load({ model, sequences, contextPerSequence });
    try {
      for (const { agent, file, most } of agents) {
        const settings = { scenarios: 8, groupSize: 8, concurrency: sequences, maxTurns: 10, maxTokens: 256 };
        const notes: string[] = [];
        /** Of this process, engine included: unlike the wall time it hardly depends on other load. */
        const cpu = { ours: 0, theirs: 0 };
        const side = (task?: string) => {
          let step = 0;
          return async () => {
            const before = process.cpuUsage();
            const result = await playEmail(enginePlayer(engine), {
              ...{ ...settings, step: step++, onToolError: "stop" as const },
              ...(task === undefined ? {} : { task }),
            });
            const { user, system } = process.cpuUsage(before);
            cpu[task === undefined ? "theirs" : "ours"] += (user + system) / 1e6;
            const { turns, tokens } = meansOf(result);
            const failed = result.failures.length > 0 ? `, ${result.failures.length} failed` : "";
            notes.push(
              `${task === undefined ? "built in" : agent}: ${turns.toFixed(2)} turns, ${tokens.toFixed(1)} tokens${failed}`,
            );
            return played(result) / result.seconds;
          };
        };
        const path = fileURLToPath(new URL(`../agents/${file}`, import.meta.url));
        const about = { name: `${name}/${agent}`, model: modelName(model), sequences, unit: "rollouts/s" as const };
        const target = `ratio >= ${(1 / most).toFixed(3)}`;
        // The first round of a file reads the agent's packages from the disk.
        await side(path)();
        cpu.ours = 0;
        const row = await compare(context, { ...about, target }, "more", { ours: side(path), theirs: side() });
        const share = (cpu.ours / cpu.theirs).toFixed(3);
        const note = `wall time at most ${most} times the built-in loop's; CPU time ${share} times it; ${notes.slice(1).join("; ")}`;
        context.log(note);
        rows.push({ ...row, note });
      }
      return rows;
    } finally {
      await engine.close();
    }
  },
};
