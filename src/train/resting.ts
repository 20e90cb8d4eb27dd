/**
 * `--rest N`: scenarios that teach nothing sit out N epochs, and then are played again, as the model has changed meanwhile.
 * These are scenarios whose last group had no gradient (its rewards did not differ), and with `--difficulty` those that the
 * start's model solved too seldom or too often. Where fewer scenarios than a step needs are left, those whose rest ends first
 * are woken.
 *
 * The choice follows from the seed and the groups of the committed steps alone, so a run resumes by its step number.
 */
import type { PlayedGroup } from "../run/index.js";
import type { Scenario } from "../tasks/index.js";
import type { CreditedGroup } from "./credit.js";
import type { ScenarioSampler, StepScenarios } from "./sampler.js";

interface Choice {
  readonly step: number;
  readonly own: readonly Scenario[];
  /** Ids of scenarios that rest in this step. */
  readonly resting: ReadonlySet<string>;
  readonly epoch: number;
  /** Where the next step's choice begins: an epoch, and how many of its scenarios have had their turn. */
  readonly next: { readonly epoch: number; readonly at: number };
}

export class RestingSampler implements StepScenarios {
  readonly #all: ScenarioSampler;
  readonly #rest: number;
  readonly #played: () => readonly PlayedGroup[];
  /** By scenario: the first epoch in which it is played again. Of all steps before that of the last choice. */
  readonly #until: Map<string, number>;
  #last: Choice | undefined;

  /**
   * @param aside ids of scenarios that rest from the start
   * @param played groups of all committed steps
   */
  constructor(
    all: ScenarioSampler,
    { rest, aside, played }: { rest: number; aside: readonly string[]; played: () => readonly PlayedGroup[] },
  ) {
    this.#all = all;
    this.#rest = rest;
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

  /** Goes on through the steps, with what came of each. They are asked for in their order. */
  #choose(step: number): Choice {
    if (this.#last?.step === step) return this.#last;
    const groups = this.#played();
    let choice = this.#last ?? this.#chooseAt(1, { epoch: 0, at: 0 });
    while (choice.step < step) {
      const { epoch, next } = choice;
      for (const { scenario, flat } of groups.filter((group) => group.step === choice.step)) {
        if (flat) this.#until.set(scenario, epoch + this.#rest + 1);
        else this.#until.delete(scenario);
      }
      choice = this.#chooseAt(choice.step + 1, next);
    }
    this.#last = choice;
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
