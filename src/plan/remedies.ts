/** The smallest set of option changes that makes a run fit. */
import { concurrencyOf, fewestSequences, type PlanInput } from "./input.js";
import { planMemory } from "./memory.js";

/** Bytes available to a plan in each place. */
export interface Room {
  readonly host: number;
  readonly gpu: number;
}

export function fits(input: PlanInput, room: Room): boolean {
  const { host, gpu } = planMemory(input);
  return host.peak <= room.host && (gpu?.peak ?? 0) <= room.gpu;
}

/** One option with a new value, as written on the command line. */
interface Change {
  readonly flag: string;
  readonly changed: Partial<PlanInput>;
}

/** One option's values, the mildest first. */
type Remedy = readonly Change[];

const FEWEST_TOKENS = 512;
const SHORTEST_CONTEXT = 1024;
/** Maximum number of options changed at once. With more, a smaller model is the better advice. */
const MOST = 4;

function halvings(from: number, least: number): number[] {
  const values: number[] = [];
  for (let value = Math.floor(from / 2); value >= least; value = Math.floor(value / 2)) values.push(value);
  return values;
}

/** Learner lifetimes that leave the engine more memory, the fastest first; offloading is for CUDA only. */
function lifetimesAfter({ gpu, learnerLifetime }: PlanInput): PlanInput["learnerLifetime"][] {
  const all: PlanInput["learnerLifetime"][] = gpu === "cuda" ? ["run", "offload", "step"] : ["run", "step"];
  return all.slice(all.indexOf(learnerLifetime) + 1);
}

/** The mildest first: options that cost time, then options that change the rollouts. */
function remedies(input: PlanInput): Remedy[] {
  const all: Remedy[] = [
    input.gradientCheckpointing ? [] : [{ flag: "--gradient-checkpointing", changed: { gradientCheckpointing: true } }],
    halvings(input.microBatchTokens, FEWEST_TOKENS).map((microBatchTokens) => ({
      flag: `--micro-batch-tokens ${microBatchTokens}`,
      changed: { microBatchTokens },
    })),
    halvings(input.concurrency, fewestSequences(input)).map((concurrency) => ({
      flag: `--concurrency ${concurrency}`,
      changed: concurrencyOf(input, concurrency),
    })),
    input.releaseWeights ? [] : [{ flag: "--release-weights", changed: { releaseWeights: true } }],
    lifetimesAfter(input).map((learnerLifetime) => ({
      flag: `--learner-lifetime ${learnerLifetime}`,
      changed: { learnerLifetime },
    })),
    halvings(input.context, SHORTEST_CONTEXT).map((context) => ({
      flag: `--context ${context}`,
      changed: { context },
    })),
  ];
  return all.filter((remedy) => remedy.length > 0);
}

/** Subsets of `count` items, ordered by their members. */
function* subsets<T>(things: readonly T[], count: number, from = 0): Generator<T[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (let i = from; i <= things.length - count; i++) {
    for (const rest of subsets(things, count - 1, i + 1)) yield [things[i] as T, ...rest];
  }
}

const with_ = (input: PlanInput, changes: readonly Change[]): PlanInput =>
  Object.assign({}, input, ...changes.map(({ changed }) => changed)) as PlanInput;

/**
 * The mildest values of some options that fit together: each is set as near to its present value as the others allow,
 * the least mild option first. Undefined when not even their last values fit.
 */
function mildest(input: PlanInput, chosen: readonly Remedy[], room: Room): Change[] | undefined {
  const changes = chosen.map((remedy) => remedy.at(-1) as Change);
  if (!fits(with_(input, changes), room)) return undefined;
  for (let i = chosen.length - 1; i >= 0; i--) {
    for (const milder of chosen[i] as Remedy) {
      const tried = changes.with(i, milder);
      if (!fits(with_(input, tried), room)) continue;
      changes[i] = milder;
      break;
    }
  }
  return changes;
}

/**
 * Flags that make the plan fit: as few as possible, and of those sets the mildest. Undefined when no set of at most that
 * many does.
 */
export function waysToFit(input: PlanInput, room: Room): string[] | undefined {
  const all = remedies(input);
  for (let count = 0; count <= MOST; count++) {
    for (const chosen of subsets(all, count)) {
      const changes = mildest(input, chosen, room);
      if (changes) return changes.map(({ flag }) => flag);
    }
  }
  return undefined;
}
