/** Estimates the duration of training the tiny model on this machine. */

import type { RunSettings } from "../../core/run/settings.js";
import { engineOptions, type MachineChoice } from "../../engine/engine-options.js";
import { loadEngine } from "../../engine/factory.js";

/** Short enough not to annoy, long enough for an error within some 10 %. */
const PROBE = { sequences: 16, prompt: 64, tokens: 96 };

/**
 * Cost of one rollout of the demo's model on the email task, in tokens of the probe: the tokens that a machine would
 * decode in the time it takes to play one, and to learn from one. Playing is measured, before training (137 tokens) and
 * scaled to the turns of a whole run; learning is the rest of a run of 3 minutes on two cores of an AMD EPYC.
 */
const COST = { play: 175, learn: 285 };
/** Seconds to load everything. */
const START = 6;

/** Tokens per second with this many sequences at once. */
export async function decodeSpeed(
  model: string,
  machine: MachineChoice,
  log?: (line: string) => void,
): Promise<number> {
  const count = PROBE.sequences;
  const engine = await loadEngine(
    engineOptions(machine, {
      model,
      sequences: count,
      contextPerSequence: PROBE.prompt + PROBE.tokens + 1,
    }),
    log,
  );
  const prompt = Int32Array.from({ length: PROBE.prompt }, (_, i) => (i * 7) % engine.info.vocabularySize);
  const sequences = Array.from({ length: count }, () => engine.open(prompt));
  const turn = (maxTokens: number) =>
    Promise.all(sequences.map((one, seed) => one.generate({ maxTokens, sampling: { seed }, stop: [] })));
  try {
    await turn(1);
    const started = performance.now();
    await turn(PROBE.tokens - 1);
    return (count * (PROBE.tokens - 1)) / ((performance.now() - started) / 1000);
  } finally {
    for (const sequence of sequences) sequence.close();
    await engine.close();
  }
}

type Plan = Pick<RunSettings, "steps" | "groupsPerStep" | "groupSize" | "validateEvery" | "validateN">;

/**
 * Seconds of a whole run of the tiny model.
 *
 * @param evaluated rollouts played besides training and its validations
 * @param speed result of {@link decodeSpeed}
 */
export function secondsOfRun(plan: Plan, evaluated: number, speed: number): number {
  const trained = plan.steps * plan.groupsPerStep * plan.groupSize;
  const between = plan.validateEvery > 0 ? Math.ceil(plan.steps / plan.validateEvery) : 1;
  const played = trained + (1 + between) * plan.validateN + evaluated;
  return START + (played * COST.play + trained * COST.learn) / speed;
}
