/**
 * `--rest N`: scenarios that teach nothing sit out N epochs, and then are played again, as the model has changed meanwhile.
 * These are scenarios whose last group had no gradient (its rewards did not differ), and with `--difficulty` those that the
 * start's model solved too seldom or too often. Where fewer scenarios than a step needs are left, those whose rest ends first
 * are woken.
 *
 * The choice follows from the seed and the groups of the committed steps alone, so a run resumes by its step number. Where steps
 * are played ahead (--staleness), it is made without those that may not be committed yet: as many steps more.
 */
import type { GroupOutcome } from "../core/run/records.js";
import type { Scenario } from "../core/task/task.js";
import type { CreditedGroup } from "../core/train/credit.js";
import type { StepScenarios } from "../core/train/parts.js";
import type { ScenarioSampler } from "./sampler.js";

interface Choice {
  readonly step: number;
  readonly own: readonly Scenario[];
  /** Ids of scenarios that rest in this step. */
  readonly resting: ReadonlySet<string>;
  readonly epoch: number;
  /** Where the next step's choice begins: an epoch, and how many of its scenarios have had their turn. */
  readonly next: { readonly epoch: number; readonly at: number };
}

interface Resting {
  readonly rest: number;
  readonly staleness?: number;
  readonly aside: readonly string[];
  readonly played: () => readonly GroupOutcome[];
}

export class RestingSampler implements StepScenarios {
  readonly #all: ScenarioSampler;
  readonly #rest: number;
  readonly #staleness: number;
  readonly #played: () => readonly GroupOutcome[];
  /** By scenario: the first epoch in which it is played again. Of the steps that the last choice could know. */
  readonly #until: Map<string, number>;
  /** Of the last steps, oldest first. */
  #choices: readonly Choice[] = [];

  /**
   * @param aside ids of scenarios that rest from the start
   * @param staleness steps that are played ahead
   * @param played groups of all committed steps
   */
  constructor(all: ScenarioSampler, { rest, staleness = 0, aside, played }: Resting) {
    this.#all = all;
    this.#rest = rest;
    this.#staleness = staleness;
    this.#until = new Map(aside.map((id) => [id, rest]));
    this.#played = played;
  }

  get groupsPerStep(): number {
    return this.#all.groupsPerStep;
  }

  next(step: number, soFar: readonly CreditedGroup[], refill: number): Scenario[] {
    const { own, resting } = this.#choose(step);
    return this.#all.nextAmong({ step, own, soFar, refill, isAwake: ({ id }) => !resting.has(id) });
  }

  resting(step: number): number {
    return this.#choose(step).resting.size;
  }

  ofValidation(count: number): Scenario[] {
    return this.#all.ofValidation(count);
  }

  /** Goes on through the steps, with what came of each. They are asked for in their order, or again soon after. */
  #choose(step: number): Choice {
    const known = this.#choices.find((choice) => choice.step === step);
    if (known) return known;
    const groups = this.#played();
    let choice = this.#choices.at(-1) ?? this.#chooseAt(1, { epoch: 0, at: 0 });
    let recent = this.#choices.length === 0 ? [choice] : this.#choices;
    while (choice.step < step) {
      const over = recent.find((one) => one.step === choice.step - this.#staleness);
      for (const { scenario, hasSignal } of groups.filter((group) => group.step === over?.step)) {
        if (!hasSignal) this.#until.set(scenario, (over as Choice).epoch + this.#rest + 1);
        else this.#until.delete(scenario);
      }
      choice = this.#chooseAt(choice.step + 1, choice.next);
      recent = [...recent, choice].slice(-2 * (this.#staleness + 1));
    }
    this.#choices = recent;
    return choice;
  }

  #chooseAt(step: number, { epoch, at }: Choice["next"]): Choice {
    const order = this.#all.ofEpoch(epoch);
    const rests = ({ id }: Scenario) => (this.#until.get(id) ?? 0) > epoch;
    const own: Scenario[] = [];
    let end = at;
    while (own.length < this.groupsPerStep && end < order.length) {
      const one = order[end++] as Scenario;
      if (!rests(one)) own.push(one);
    }
    const missing = this.groupsPerStep - own.length;
    // As without rest, what does not fill a step is left out.
    if (missing > 0 && at > 0) return this.#chooseAt(step, { epoch: epoch + 1, at: 0 });
    const soonest = order
      .filter(rests)
      .sort((a, b) => (this.#until.get(a.id) as number) - (this.#until.get(b.id) as number));
    const resting = new Set(soonest.slice(missing).map(({ id }) => id));
    return { step, own: [...own, ...soonest.slice(0, missing)], resting, epoch, next: { epoch, at: end } };
  }
}
