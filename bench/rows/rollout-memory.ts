/** Memory of the process over 2,000 rollouts, played in steps as in training: it must not grow. */
import { modelFile, trainedContext } from "../../src/engine/models.js";
import { describe, modelName } from "../measure.js";
import { enginePlayer, playEmail, played } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

const FIRST = 500;
const ALL = 2000;
const STEP = 100;

export const bench: Bench = {
  name: "rollout/memory",
  about: `resident memory after ${ALL} rollouts, against that after ${FIRST}`,
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const sequences = context.sequences?.[0] ?? 16;
    const engine = await context.load({
      model,
      sequences,
      contextPerSequence: Math.min(4096, await trainedContext(model)),
    });
    const megabytes: number[] = [];
    try {
      let done = 0;
      for (let step = 0; done < ALL; step++) {
        const settings = {
          scenarios: STEP / 4,
          groupSize: 4,
          concurrency: sequences,
          maxTurns: 10,
          maxTokens: 256,
          step,
        };
        done += played(await playEmail(enginePlayer(engine), settings));
        megabytes.push(process.memoryUsage.rss() / 1e6);
        if (done % FIRST === 0) context.log(`${done} rollouts: ${megabytes.at(-1)?.toFixed(0)} MB`);
      }
    } finally {
      await engine.close();
    }
    const early = megabytes[FIRST / STEP - 1] as number;
    const late = megabytes.at(-1) as number;
    const row: Row = {
      name: "rollout/memory",
      model: modelName(model),
      sequences,
      ours: late,
      theirs: early,
      ratio: early / late,
      unit: "MB",
      target: "ratio >= 0.95",
      note: `ours: after ${ALL} rollouts, theirs: after ${FIRST}; of all readings the lowest ${Math.min(...megabytes).toFixed(0)} MB, the highest ${Math.max(...megabytes).toFixed(0)} MB`,
    };
    context.log(describe(row));
    return [row];
  },
};
