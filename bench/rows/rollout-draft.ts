/**
 * CPU milliseconds of the process for each sampled token of whole email rollouts, with guessed tokens (`draft: "auto"`)
 * against without: a rollout alone, and groups of 4 and 8. CPU time and not seconds, since other programs change it less.
 */
import { modelFile, trainedContext } from "../../src/engine/index.js";
import { compare, modelName } from "../measure.js";
import { playEmail, playerWith } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

const works = [
  { groupSize: 1, sequences: 1, scenarios: 16 },
  { groupSize: 4, sequences: 16, scenarios: 16 },
  { groupSize: 8, sequences: 16, scenarios: 8 },
];

export const bench: Bench = {
  name: "rollout/draft",
  about: "CPU time of a sampled token of whole rollouts, with guessed tokens against without",
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const contextPerSequence = Math.min(4096, await trainedContext(model));
    const rows: Row[] = [];
    for (const { groupSize, sequences, scenarios } of works) {
      if (context.sequences && !context.sequences.includes(sequences)) continue;
      const counts = { decoded: 0, accepted: 0, drafted: 0 };
      const steps = { auto: 0, 0: 0 };
      const measured = async (draft: "auto" | 0): Promise<number> => {
        const engine = await context.load({ model, sequences, contextPerSequence, draft });
        try {
          const settings = { scenarios, groupSize, concurrency: sequences, maxTurns: 10, maxTokens: 256 };
          const before = process.cpuUsage();
          await playEmail(playerWith(engine, { draft }), { ...settings, step: steps[draft]++ });
          const { user, system } = process.cpuUsage(before);
          const { decoded, accepted, drafted } = engine.stats();
          if (draft === "auto") {
            counts.decoded += decoded;
            counts.accepted += accepted;
            counts.drafted += drafted;
          }
          return (user + system) / 1000 / decoded;
        } finally {
          await engine.close();
        }
      };
      const name = `rollout/draft/${groupSize === 1 ? "alone" : `group-${groupSize}`}`;
      const row = await compare(context, { name, model: modelName(model), sequences, unit: "ms", target: "" }, "less", {
        ours: () => measured("auto"),
        theirs: () => measured(0),
      });
      const { decoded, accepted, drafted } = counts;
      const note = `${(decoded / (decoded - accepted)).toFixed(2)} tokens a step; ${accepted} of ${drafted} guesses were right`;
      context.log(note);
      rows.push({ ...row, note: `CPU time for each sampled token; ours: --draft auto, theirs: off; ${note}` });
    }
    return rows;
  },
};
