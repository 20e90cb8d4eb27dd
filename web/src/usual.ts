/**
 * The usual values of a run's metrics: computed once for all steps, since each of thousands is compared with the
 * others.
 */
import type { RunView } from "../../src/insight/view/wire.js";

type Step = RunView["steps"][number];
type Metrics = NonNullable<Step["metrics"]>;
export type TrainedStep = Step & { readonly metrics: Metrics };

/** Values of all steps, to compare each with the median of the others. */
class Values {
  readonly #sorted: readonly number[];

  constructor(values: readonly (number | null | undefined)[]) {
    this.#sorted = values
      .filter((value): value is number => typeof value === "number" && !Number.isNaN(value))
      .sort((a, b) => a - b);
  }

  /** Median without one occurrence of this value; of all values if it is not among them. NaN if none are left. */
  medianWithout(value: number | null | undefined): number {
    const left = typeof value === "number" ? this.#place(value) : this.#sorted.length;
    const n = left < this.#sorted.length ? this.#sorted.length - 1 : this.#sorted.length;
    if (n === 0) return Number.NaN;
    const at = (i: number) => this.#sorted[i < left ? i : i + 1] as number;
    const middle = n >> 1;
    return n % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
  }

  /** Index of the value; the length if missing. */
  #place(value: number): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#sorted[middle] as number) < value) low = middle + 1;
      else high = middle;
    }
    return this.#sorted[low] === value ? low : this.#sorted.length;
  }
}

export interface Usual {
  /** Steps with an update, in order, and the index of each. */
  readonly trained: readonly TrainedStep[];
  readonly placeOf: ReadonlyMap<number, number>;
  readonly gradient: Values;
  readonly mismatch: Values;
  readonly seconds: Values;
  readonly errorRate: Values;
  /** The first measured value. */
  readonly entropy: number | undefined;
}

/** Mean number of failed calls per rollout. */
export const errorRate = ({ tool_errors, rollouts }: Metrics): number =>
  Object.values(tool_errors).reduce((sum, n) => sum + n, 0) / rollouts;

export function usualOf(steps: RunView["steps"]): Usual {
  const trained = steps.filter((step): step is TrainedStep => step.metrics !== null);
  return {
    trained,
    placeOf: new Map(trained.map(({ step }, i) => [step, i])),
    gradient: new Values(trained.map(({ metrics }) => metrics.grad_norm)),
    mismatch: new Values(trained.map(({ metrics }) => metrics.mismatch?.mean)),
    seconds: new Values(trained.map(({ timing }) => timing?.seconds.total)),
    errorRate: new Values(trained.map(({ metrics }) => errorRate(metrics))),
    entropy: trained.find(({ metrics }) => metrics.entropy)?.metrics.entropy ?? undefined,
  };
}
