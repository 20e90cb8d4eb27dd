/** The scenarios that a validation plays, and whether a task's are still the same. */
import { createHash } from "node:crypto";
import type { Scenario } from "../core/task/task.js";
import { Random } from "../core/util/random.js";

/** Always the same ones, so that results are comparable. */
export function validationScenarios(
  all: readonly Scenario[],
  { seed, validateN }: { seed: number; validateN: number },
): Scenario[] {
  const test = all.filter(({ split }) => split === "test");
  return new Random("validation", seed).sample(test, validateN);
}

/** Changes when any scenario does. */
export function scenariosFingerprint(scenarios: readonly Scenario[]): string {
  return createHash("sha256").update(JSON.stringify(scenarios)).digest("hex");
}
