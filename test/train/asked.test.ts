/** What the learner is asked for, beside the run's options. */
import { expect, it } from "vitest";
import { objectiveOf } from "../../src/core/learn/objectives.js";
import type { StepSettings } from "../../src/core/learn/types.js";
import type { RunSettings } from "../../src/core/run/settings.js";
import { checkAsked } from "../../src/guards/asked.js";

const run = {
  ...{ loss: "gspo", clipLow: 3e-4, clipHigh: 4e-4, temperature: 0.8, kl: 0.05, iterations: 2, minibatches: 3 },
  ...{ importanceSampling: "token-mask", importanceMin: 0.5, importanceMax: 2, maxGradNorm: 0.1 },
  ...{ maxTokens: 128, maxTurns: 6 },
} as RunSettings;
const asked = {
  objective: { ...objectiveOf("gspo"), clipLow: 3e-4, clipHigh: 4e-4 },
  importance: { mode: "token-mask", low: 0.5, high: 2 },
  ...{ temperature: 0.8, klCoefficient: 0.05, epochs: 2, minibatches: 3, maxGradNorm: 0.1, maxCompletionTokens: 768 },
} as StepSettings;

it("is what the run's options say", () => {
  expect(checkAsked(asked, run)).toBeUndefined();
  const unbounded = { ...asked, objective: { ...objectiveOf("cispo"), clipLow: null, clipHigh: 4 } };
  expect(checkAsked(unbounded, { ...run, loss: "cispo", clipLow: undefined, clipHigh: 4 })).toBeUndefined();
});

it("is refused where it is anything else", () => {
  expect(checkAsked({ ...asked, epochs: 3, minibatches: 2 }, run)).toMatch(
    "the learner would be asked for --iterations 3, and the run has 2; the step was not taken",
  );
  const others = [
    { objective: { ...asked.objective, clipHigh: 0.2 } },
    { objective: { ...asked.objective, clipLow: null } },
    { objective: { ...objectiveOf("grpo"), clipLow: 3e-4, clipHigh: 4e-4 } },
    { importance: { ...asked.importance, low: 0 } },
    { importance: { ...asked.importance, mode: "token-truncate" } },
    { importance: { ...asked.importance, high: 3 } },
    { klCoefficient: 0 },
    { minibatches: 1 },
    { temperature: 1 },
    { maxGradNorm: 1 },
    { maxCompletionTokens: 128 },
  ] as const;
  for (const other of others) expect(checkAsked({ ...asked, ...other }, run)).toMatch("would be asked for --");
});
