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
  /** Steps that are played ahead. */
  readonly staleness?: number;
  /** Ids of scenarios that rest from the start. */
  readonly aside: readonly string[];
  /** Groups of all committed steps. */
  readonly played: () => readonly GroupOutcome[];
}

export function restingSampler(all: ScenarioSampler, { rest, staleness = 0, aside, played }: Resting): StepScenarios {
  const { groupsPerStep } = all;
  /** By scenario: the first epoch in which it is played again. Of the steps that the last choice could know. */
  const until = new Map(aside.map((id) => [id, rest]));
  /** Of the last steps, oldest first. */
  let choices: readonly Choice[] = [];

  function chooseAt(step: number, { epoch, at }: Choice["next"]): Choice {
    const order = all.ofEpoch(epoch);
    const rests = ({ id }: Scenario) => (until.get(id) ?? 0) > epoch;
    const own: Scenario[] = [];
    let end = at;
    while (own.length < groupsPerStep && end < order.length) {
      const one = order[end++] as Scenario;
      if (!rests(one)) own.push(one);
    }
    const missing = groupsPerStep - own.length;
    // As without rest, what does not fill a step is left out.
    if (missing > 0 && at > 0) return chooseAt(step, { epoch: epoch + 1, at: 0 });
    const soonest = order.filter(rests).sort((a, b) => (until.get(a.id) as number) - (until.get(b.id) as number));
    const resting = new Set(soonest.slice(missing).map(({ id }) => id));
    return { step, own: [...own, ...soonest.slice(0, missing)], resting, epoch, next: { epoch, at: end } };
  }

  /** Goes on through the steps, with what came of each. They are asked for in their order, or again soon after. */
  function choose(step: number): Choice {
    const known = choices.find((choice) => choice.step === step);
    if (known) return known;
    const groups = played();
    let choice = choices.at(-1) ?? chooseAt(1, { epoch: 0, at: 0 });
    let recent = choices.length === 0 ? [choice] : choices;
    while (choice.step < step) {
      const over = recent.find((one) => one.step === choice.step - staleness);
      for (const { scenario, hasSignal } of groups.filter((group) => group.step === over?.step)) {
        if (!hasSignal) until.set(scenario, (over as Choice).epoch + rest + 1);
        else until.delete(scenario);
      }
      choice = chooseAt(choice.step + 1, choice.next);
      recent = [...recent, choice].slice(-2 * (staleness + 1));
    }
    choices = recent;
    return choice;
  }

  return {
    groupsPerStep,
    next(step, soFar, refill) {
      const { own, resting } = choose(step);
      return all.nextAmong({ step, own, soFar, refill, isAwake: ({ id }) => !resting.has(id) });
    },
    resting: (step) => choose(step).resting.size,
    ofValidation: (count) => all.ofValidation(count),
  };
}
