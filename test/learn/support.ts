/** Settings for tests of the learner's process, and batches to learn from. */

import type { LocalEngine } from "../../src/core/engine/engine.js";
import { groupAdvantages } from "../../src/core/learn/advantages.js";
import type { BatchGroup } from "../../src/core/learn/batch.js";
import { objectiveOf } from "../../src/core/learn/objectives.js";
import type { LearnerSettings, StepSettings } from "../../src/core/learn/types.js";
import type { TokenRecord } from "../../src/core/rollout/transcript.js";
import { ggmlBase } from "../../src/engine/missing.js";

export function settings(python: string, logFile: string): LearnerSettings {
  return {
    python,
    backend: "peft",
    base: { gguf: "model.gguf" },
    lora: { rank: 4, alpha: 8, targets: ["q_proj", "v_proj", "down_proj"] },
    seed: 1,
    threads: 1,
    device: "cpu",
    precision: "f32",
    ggml: ggmlBase(),
    logFile,
  };
}

export const step: StepSettings = {
  batch: "batch.safetensors",
  into: "0001",
  objective: objectiveOf("dapo"),
  importance: { mode: "token-truncate", low: 0, high: 2 },
  learningRate: 2e-3,
  klCoefficient: 0,
  maxGradNorm: 1,
  microBatchTokens: 4096,
  gradientCheckpointing: false,
};

/**
 * Groups of sampled text with a made-up tool result in the middle; odd members of a group get the reward.
 *
 * @param length tokens of the prompt, its text over and over
 */
export async function play(engine: LocalEngine, groups: number, size: number, length?: number): Promise<BatchGroup[]> {
  const played: BatchGroup[] = [];
  for (let group = 0; group < groups; group++) {
    const text = engine.tokenize(`Question ${group}: what happened after the meeting of the board?`, {
      special: false,
    });
    const prompt = Int32Array.from({ length: length ?? text.length }, (_, i) => text[i % text.length] as number);
    const tool = engine.tokenize(" result: nothing was found. ", { special: false });
    const records = await Promise.all(
      engine.openGroup(prompt, size).map(async (sequence, index): Promise<TokenRecord> => {
        const record: TokenRecord = { ids: [...prompt], sampled: [...prompt].fill(0), logprobs: [...prompt].fill(0) };
        for (const append of [undefined, tool]) {
          const turn = await sequence.generate({
            maxTokens: 12 + index,
            sampling: { seed: 1000 * group + index },
            stop: [],
            ...(append ? { append } : {}),
          });
          for (const id of append ?? []) {
            record.ids.push(id);
            record.sampled.push(0);
            record.logprobs.push(0);
          }
          record.ids.push(...turn.tokens);
          record.sampled.push(...[...turn.tokens].fill(1));
          record.logprobs.push(...turn.logprobs);
        }
        sequence.close();
        return record;
      }),
    );
    const rewards = records.map((_, index) => index % 2);
    const { advantages } = groupAdvantages(rewards, { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 });
    played.push(records.map((tokens, index) => ({ tokens, advantage: advantages[index] as number })));
  }
  return played;
}
