/**
 * Chooses the scenarios of a step. Each epoch is a fresh shuffle of the train split, cut into steps; a remainder that does
 * not fill a step is left out. The choice depends on the seed and the step alone, so a run resumes by its step number.
 *
 * Dynamic sampling (DAPO: Yu et al. 2025, arXiv 2503.14476, section 3.2): groups without a gradient are replaced by others
 * until the step has enough with a signal, or has used up its further groups. The choice follows from the step and the
 * groups before: a repeated step chooses the same scenarios again, and finds their rollouts saved.
 */

import type { Scenario } from "../core/task/task.js";
import { type CreditedGroup, hasZeroAdvantages } from "../core/train/credit.js";
import type { StepScenarios } from "../core/train/parts.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { Random } from "../core/util/random.js";
import { validationScenarios } from "../scenarios/held-out.js";

interface NextAmong {
  readonly step: number;
  readonly own: readonly Scenario[];
  readonly soFar: readonly CreditedGroup[];
  readonly refill: number;
  /** Whether a scenario may be drawn in place of another. */
  readonly isAwake: (scenario: Scenario) => boolean;
}

export class ScenarioSampler implements StepScenarios {
  readonly #train: readonly Scenario[];
  readonly #test: readonly Scenario[];
  readonly #groupsPerStep: number;
  readonly #seed: number;
  /** Ids of the train split that are played; undefined plays all. */
  #kept: ReadonlySet<string> | undefined;

  /**
   * @param groups scenarios in a step
   * @throws HoneError when a split has no scenarios
   * @throws UsageError when the train split does not fill one step
   */
  constructor(scenarios: readonly Scenario[], { groupsPerStep, seed }: { groupsPerStep: number; seed: number }) {
    this.#train = scenarios.filter(({ split }) => split === "train");
    this.#test = scenarios.filter(({ split }) => split === "test");
    this.#groupsPerStep = groupsPerStep;
    this.#seed = seed;
    for (const [split, found] of [["train", this.#train] as const, ["test", this.#test] as const]) {
      if (found.length === 0) {
        throw new HoneError(
          `the ${split} split has no scenario (${scenarios.length} in all), and training needs both splits`,
        );
      }
    }
    if (this.#train.length < groupsPerStep) {
      throw new UsageError(
        `--groups-per-step ${groupsPerStep}: the train split has only ${this.#train.length} scenarios`,
      );
    }
  }

  get groupsPerStep(): number {
    return this.#groupsPerStep;
  }

  /** The same, of whose train split only these are played, in the order that they have among all. */
  only(ids: ReadonlySet<string>): ScenarioSampler {
    const sampler = new ScenarioSampler([...this.#train, ...this.#test], {
      groupsPerStep: this.#groupsPerStep,
      seed: this.#seed,
    });
    sampler.#kept = ids;
    return sampler;
  }

  /** The train split as an epoch goes through it; of the first one the beginning is known before all are. */
  ofEpoch(epoch: number): Scenario[] {
    return new Random("epoch", this.#seed, epoch).shuffle(this.#train).filter(this.#isKept);
  }

  #isKept = ({ id }: Scenario) => this.#kept?.has(id) ?? true;

  get stepsPerEpoch(): number {
    return Math.floor(this.#train.filter(this.#isKept).length / this.#groupsPerStep);
  }

  /** Different scenarios for one step, counted from 1. */
  ofStep(step: number): Scenario[] {
    const epoch = Math.floor((step - 1) / this.stepsPerEpoch);
    const start = ((step - 1) % this.stepsPerEpoch) * this.#groupsPerStep;
    return this.ofEpoch(epoch).slice(start, start + this.#groupsPerStep);
  }

  next(step: number, soFar: readonly CreditedGroup[], refill: number): Scenario[] {
    return this.nextAmong({ step, own: this.ofStep(step), soFar, refill, isAwake: () => true });
  }

  /** None rest. */
  resting(): number {
    return 0;
  }

  /**
   * {@link StepScenarios.next} of a step with these scenarios of its own. Others are drawn in an order of the step's own, and do
   * not count in the epoch: they may have been played in it, or will be.
   */
  nextAmong({ step, own, soFar, refill, isAwake }: NextAmong): Scenario[] {
    if (soFar.length === 0) return [...own];
    const further = soFar.length - own.length;
    // Each further group takes the place of one of these.
    const missing = soFar.filter(hasZeroAdvantages).length - further;
    if (missing <= 0 || further >= refill) return [];
    const ids = new Set(own.map(({ id }) => id));
    const others = this.#train.filter((one) => this.#isKept(one) && isAwake(one) && !ids.has(one.id));
    const order = new Random("refill", this.#seed, step).shuffle(others).slice(0, refill);
    return order.slice(further, further + missing);
  }

  ofValidation(count: number): Scenario[] {
    return validationScenarios(this.#test, { seed: this.#seed, validateN: count });
  }
}
