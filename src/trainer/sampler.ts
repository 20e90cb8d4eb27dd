/**
 * Chooses the scenarios of a step. Each epoch is a fresh shuffle of the train split, dealt to its steps; a remainder that does
 * not fill a step is left out. The choice depends on the seed and the step alone, so a run resumes by its step number.
 *
 * Dynamic sampling (DAPO: Yu et al. 2025, arXiv 2503.14476, section 3.2): groups without a gradient are replaced by others
 * until the step has enough with a signal, or has used up its further groups. The choice follows from the step and the
 * groups before: a repeated step chooses the same scenarios again, and finds their rollouts saved.
 *
 * With `--rest N` scenarios that teach nothing sit out N epochs, and then are played again, as the model has changed meanwhile.
 * These are scenarios whose last group had no gradient (its rewards did not differ), and with `--difficulty` those that the
 * start's model solved too seldom or too often. Where fewer scenarios than a step needs are left, those whose rest ends first
 * are woken. The choice then follows from the seed and the groups of the committed steps. Where steps are played ahead
 * (--staleness), it is made without those that may not be committed yet: as many steps more.
 */

import type { GroupOutcome } from "../core/run/records.js";
import type { Scenario } from "../core/task/task.js";
import { type CreditedGroup, hasZeroAdvantages } from "../core/train/credit.js";
import type { StepScenarios } from "../core/train/parts.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { Random } from "../core/util/random.js";
import { validationScenarios } from "../scenarios/held-out.js";

/** Which scenarios of the train split sit out. */
interface SittingOut {
  /** Epochs for which those sit out that teach nothing, and those of `aside`. 0: the former do not, and the latter are out for good. */
  readonly rest: number;
  /** Ids of scenarios that sit out from the start. */
  readonly aside: readonly string[];
  /** Steps that are played ahead. */
  readonly staleness: number;
  /** Groups of all committed steps. */
  readonly played: () => readonly GroupOutcome[];
}

const NONE: SittingOut = { rest: 0, aside: [], staleness: 0, played: () => [] };

interface Choice {
  readonly step: number;
  readonly own: readonly Scenario[];
  /** Ids of scenarios that sit out in this step. */
  readonly resting: ReadonlySet<string>;
  readonly epoch: number;
  /** Where the next step's choice begins: an epoch, and how many of its scenarios have had their turn. */
  readonly next: { readonly epoch: number; readonly at: number };
}

export class ScenarioSampler implements StepScenarios {
  readonly groupsPerStep: number;
  readonly #train: readonly Scenario[];
  readonly #test: readonly Scenario[];
  readonly #seed: number;
  readonly #out: SittingOut;
  /** By scenario: the first epoch in which it is played again. Of the steps that the last choice could know. */
  readonly #until: Map<string, number>;
  #order: { readonly epoch: number; readonly scenarios: readonly Scenario[] } | undefined;
  /** Of the last steps, oldest first. */
  #recent: readonly Choice[] = [];

  /**
   * @param groupsPerStep scenarios in a step
   * @throws HoneError when a split has no scenarios
   * @throws UsageError when the train split does not fill one step
   */
  constructor(
    scenarios: readonly Scenario[],
    { groupsPerStep, seed }: { readonly groupsPerStep: number; readonly seed: number },
    out = NONE,
  ) {
    const of = (split: Scenario["split"]) => {
      const found = scenarios.filter((one) => one.split === split);
      if (found.length > 0) return found;
      const all = `${scenarios.length} in all`;
      throw new HoneError(`the ${split} split has no scenario (${all}), and training needs both splits`);
    };
    this.#train = of("train");
    this.#test = of("test");
    this.groupsPerStep = groupsPerStep;
    this.#seed = seed;
    this.#out = out;
    this.#until = new Map(out.aside.map((id) => [id, out.rest || Number.POSITIVE_INFINITY]));
    const { length } = this.#train;
    if (length >= groupsPerStep) return;
    throw new UsageError(`--groups-per-step ${groupsPerStep}: the train split has only ${length} scenarios`);
  }

  /** The same, of whose train split some sit out. */
  without(out: SittingOut): ScenarioSampler {
    const { groupsPerStep } = this;
    return new ScenarioSampler([...this.#train, ...this.#test], { groupsPerStep, seed: this.#seed }, out);
  }

  /** The train split as an epoch goes through it. */
  ofEpoch(epoch: number): readonly Scenario[] {
    if (this.#order?.epoch !== epoch)
      this.#order = { epoch, scenarios: new Random("epoch", this.#seed, epoch).shuffle(this.#train) };
    return this.#order.scenarios;
  }

  /** Where none sits out. */
  get stepsPerEpoch(): number {
    return Math.floor(this.#train.length / this.groupsPerStep);
  }

  #chooseAt(step: number, { epoch, at }: Choice["next"]): Choice {
    const order = this.ofEpoch(epoch);
    const until = ({ id }: Scenario) => this.#until.get(id) ?? 0;
    const rests = (one: Scenario) => until(one) > epoch;
    const own: Scenario[] = [];
    let end = at;
    while (own.length < this.groupsPerStep && end < order.length) {
      const one = order[end++] as Scenario;
      if (!rests(one)) own.push(one);
    }
    const missing = this.groupsPerStep - own.length;
    if (missing > 0 && at > 0) return this.#chooseAt(step, { epoch: epoch + 1, at: 0 });
    // A run that resumes, or is replayed, comes by here for each step before.
    const soonest = (this.#until.size > 0 ? order.filter(rests) : []).sort((a, b) => until(a) - until(b));
    const resting = new Set(soonest.slice(missing).map(({ id }) => id));
    return { step, own: [...own, ...soonest.slice(0, missing)], resting, epoch, next: { epoch, at: end } };
  }

  /** Goes on through the steps, with what came of each. With rest they are asked for in their order, or again soon after. */
  #choice(step: number): Choice {
    const known = this.#recent.find((choice) => choice.step === step);
    if (known) return known;
    const { rest, staleness, played } = this.#out;
    const groups = rest > 0 ? played() : [];
    const goesOn = this.#recent.some((choice) => choice.step < step);
    let recent = goesOn ? this.#recent : [this.#chooseAt(1, { epoch: 0, at: 0 })];
    let choice = recent.at(-1) as Choice;
    while (choice.step < step) {
      const over = recent.find((one) => one.step === choice.step - staleness);
      for (const { scenario, hasSignal } of groups.filter((group) => group.step === over?.step)) {
        if (!hasSignal) this.#until.set(scenario, (over as Choice).epoch + rest + 1);
        else this.#until.delete(scenario);
      }
      choice = this.#chooseAt(choice.step + 1, choice.next);
      recent = [...recent, choice].slice(-2 * (staleness + 1));
    }
    this.#recent = recent;
    return choice;
  }

  next(step: number, soFar: readonly CreditedGroup[], refill: number): Scenario[] {
    const { own, resting } = this.#choice(step);
    if (soFar.length === 0) return [...own];
    const further = soFar.length - own.length;
    // Each further group takes the place of one of these.
    const missing = soFar.filter(hasZeroAdvantages).length - further;
    if (missing <= 0 || further >= refill) return [];
    // In an order of the step's own; they do not count in the epoch: they may have been played in it, or will be.
    const others = this.#train.filter((one) => !resting.has(one.id) && !own.includes(one));
    const order = new Random("refill", this.#seed, step).shuffle(others).slice(0, refill);
    return order.slice(further, further + missing);
  }

  resting(step: number): number {
    return this.#out.rest > 0 ? this.#choice(step).resting.size : 0;
  }

  ofValidation(count: number): Scenario[] {
    return validationScenarios(this.#test, { seed: this.#seed, validateN: count });
  }
}
