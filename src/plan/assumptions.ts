/** What the arithmetic of a step assumes where no datasheet says it, and `--assume`, which changes it. */
import { nearest, UsageError } from "../util/index.js";

interface Assumption {
  /** As `--assume` names it. */
  readonly name: string;
  readonly value: number;
  /** Upper bound: a share is at most 1. */
  readonly most: number;
  readonly unit: string;
  readonly about: string;
}

const MANY = Number.MAX_VALUE;

/** In the order in which they are printed. Zero is accepted where a cost is assumed away. */
const assumed = {
  bandwidth: ["bandwidth", 0.8, 1, "share", "of a card's memory bandwidth that is reached"],
  products: ["products", 0.4, 1, "share", "of its peak that products of rollouts reach"],
  updates: ["updates", 0.4, 1, "share", "of its peak that products of an update reach"],
  busy: ["busy", 0.75, 1, "share", "of the places for rollouts that decode at a time: some have ended"],
  pass: [
    "pass",
    2.3e-4,
    MANY,
    "s",
    "of llama.cpp's kernels with an adapter and the gaps between them, for each layer and pass (an H200: docs/gpu.md)",
  ],
  servedPass: ["vllm-pass", 1.1e-4, MANY, "s", "the same of a vLLM server; not measured"],
  launches: ["launches", 75, MANY, "", "kernels of the learner for each layer and row (docs/gpu.md)"],
  launch: ["launch", 6e-5, MANY, "s", "of the host for one of them, Python's included (beside an H200: docs/gpu.md)"],
  checked: [
    "checked",
    0.25,
    MANY,
    "share",
    "of a batch's tokens that the learner scores by two policies, to see which one played",
  ],
  bus: ["bus", 0.8, 1, "share", "of the bandwidth between cards, and to the host, that is reached"],
  network: ["network", 1.25e9, MANY, "bytes/s", "between machines: 10 Gbit/s"],
  disk: ["disk", 1e9, MANY, "bytes/s", "of the folder of runs and adapters"],
  start: ["start", 15, MANY, "s", "to start the learner or a server again, where an option says so"],
  price: ["price", 0, MANY, "$", "of a card for an hour; 0: no costs are shown"],
  cpuBandwidth: ["cpu-bandwidth", 0, MANY, "bytes/s", "of main memory, for --cards cpu"],
  cpuProducts: ["cpu-products", 0, MANY, "1/s", "floating point operations in f32, for --cards cpu"],
} as const satisfies Record<string, readonly [string, number, number, string, string]>;

export type AssumptionName = keyof typeof assumed;
export type Assumptions = Readonly<Record<AssumptionName, number>>;

/** Rates and shares that time is divided by. */
const DIVISORS: readonly AssumptionName[] = ["bandwidth", "products", "updates", "busy", "bus", "network", "disk"];

const keys = Object.keys(assumed) as AssumptionName[];

export const assumptions: readonly (Assumption & { readonly key: AssumptionName })[] = keys.map((key) => {
  const [name, value, most, unit, about] = assumed[key];
  return { key, name, value, most, unit, about };
});

export const ASSUMED = Object.fromEntries(assumptions.map(({ key, value }) => [key, value])) as Assumptions;

/** Of a CPU, whose rates are measured: what programs reached, not what its maker says. */
export const ON_CPU: Partial<Assumptions> = { bandwidth: 1, products: 1, updates: 1 };

/**
 * The assumptions with those that `--assume NAME=VALUE` gives.
 *
 * @param others values that take the place of the usual ones
 *
 * @throws UsageError for an unknown name, or a value that cannot be
 */
export function readAssumptions(
  given: Readonly<Record<string, unknown>> | undefined,
  others: Partial<Assumptions> = {},
): Assumptions {
  const values: Record<AssumptionName, number> = { ...ASSUMED, ...others };
  for (const [name, value] of Object.entries(given ?? {})) {
    const known = assumptions.find((one) => one.name === name);
    if (!known) {
      const names = assumptions.map((one) => one.name);
      const close = nearest(name, names);
      throw new UsageError(
        `--assume ${name}: nothing is called so; ${close ? `did you mean ${close}? ` : ""}there are ${names.join(", ")}`,
      );
    }
    const divides = DIVISORS.includes(known.key);
    const number = Number(value);
    if (typeof value === "boolean" || !(number >= 0 && number <= known.most) || (divides && number === 0)) {
      const range = known.most === 1 ? "a number up to 1" : "a number";
      throw new UsageError(
        `--assume ${name}=${String(value)} is not accepted; give ${range}, ${divides ? "above 0" : "0 or more"}`,
      );
    }
    values[known.key] = number;
  }
  return values;
}
