/** The smallest set of option changes that makes a run fit. */
import { concurrencyOf, type JudgeLoad, type PlanInput } from "./input.js";
import { planMemory } from "./memory.js";

/** Bytes available to a plan in each place. */
export interface Room {
  readonly host: number;
  readonly gpu: number;
  /** Of the learner's own card. */
  readonly learnerGpu?: number;
}

export function fits(input: PlanInput, room: Room): boolean {
  const { host, gpu, learnerGpu } = planMemory(input);
  return host.peak <= room.host && (gpu?.peak ?? 0) <= room.gpu && (learnerGpu?.peak ?? 0) <= (room.learnerGpu ?? 0);
}

/** One option with a new value, as written on the command line. */
interface Change {
  readonly flag: string;
  readonly changed?: Partial<Omit<PlanInput, "judge">>;
  /** Of the judge. */
  readonly judged?: Partial<JudgeLoad>;
}

/** One option's values, the mildest first; none where it cannot save memory. */
type Remedy = (input: PlanInput) => readonly Change[];

const FEWEST_TOKENS = 512;
const SHORTEST_CONTEXT = 1024;
/** Tokens of a question to the judge. */
const SHORTEST_QUESTION = 4000;
/** Maximum number of options changed at once, besides {@link asked}. With more, a smaller model is the better advice. */
const MOST = 4;

/** Halves of a number, down to `least`; none where it is that already. */
function halvings(from: number, least: number): number[] {
  const values: number[] = [];
  for (let value = from; value > least; ) {
    value = Math.max(least, Math.floor(value / 2));
    values.push(value);
  }
  return values;
}

/** Learner lifetimes that leave the engine more memory, the fastest first; offloading is for CUDA only. */
function lifetimesAfter({ gpu, awake, learnerLifetime }: PlanInput): PlanInput["learnerLifetime"][] {
  const all: PlanInput["learnerLifetime"][] = gpu === "cuda" && !awake ? ["run", "offload", "step"] : ["run", "step"];
  return all.slice(all.indexOf(learnerLifetime) + 1);
}

/** Halves of a number of the run that an option sets. */
const halved =
  (flag: string, key: "microBatchTokens" | "context", least: number): Remedy =>
  (input) =>
    halvings(input[key], least).map((value) => ({ flag: `${flag} ${value}`, changed: { [key]: value } }));

/** The same of the judge, where there is one. */
const halvedOfJudge =
  (flag: string, key: "concurrency" | "inputTokens", least: number): Remedy =>
  ({ judge }) =>
    halvings(judge?.[key] ?? least, least).map((value) => ({ flag: `${flag} ${value}`, judged: { [key]: value } }));

/** What was asked for beyond the defaults of an engine. Withdrawing it changes no rollouts. */
const asked: readonly Remedy[] = [halvedOfJudge("--judge-concurrency", "concurrency", 1)];

/** The mildest first: options that cost time, then options that change the rollouts. */
const remedies: readonly Remedy[] = [
  ...asked,
  (input) =>
    input.gradientCheckpointing ? [] : [{ flag: "--gradient-checkpointing", changed: { gradientCheckpointing: true } }],
  halved("--micro-batch-tokens", "microBatchTokens", FEWEST_TOKENS),
  (input) =>
    halvings(input.concurrency, 1).map((concurrency) => ({
      flag: `--concurrency ${concurrency}`,
      changed: concurrencyOf(input, concurrency),
    })),
  halvedOfJudge("--judge-input-tokens", "inputTokens", SHORTEST_QUESTION),
  (input) =>
    input.releaseWeights || input.awake ? [] : [{ flag: "--release-weights", changed: { releaseWeights: true } }],
  (input) =>
    lifetimesAfter(input).map((learnerLifetime) => ({
      flag: `--learner-lifetime ${learnerLifetime}`,
      changed: { learnerLifetime },
    })),
  halved("--context", "context", SHORTEST_CONTEXT),
];

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
  Object.assign({}, input, ...changes.map(({ changed }) => changed), {
    judge: input.judge && Object.assign({}, input.judge, ...changes.map(({ judged }) => judged)),
  }) as PlanInput;

/** Every value of the chosen options: with fewer lanes fewer sequences suffice. Undefined where one has none. */
function valuesOf(input: PlanInput, chosen: readonly Remedy[]): (readonly Change[])[] | undefined {
  const values: (readonly Change[])[] = [];
  let reached = input;
  for (const remedy of chosen) {
    const own = remedy(reached);
    const last = own.at(-1);
    if (!last) return undefined;
    values.push(own);
    reached = with_(reached, [last]);
  }
  return values;
}

/**
 * The mildest values of some options that fit together: each is set as near to its present value as the others allow,
 * the least mild option first. Undefined when not even their last values fit.
 */
function mildest(input: PlanInput, chosen: readonly Remedy[], room: Room): Change[] | undefined {
  const values = valuesOf(input, chosen);
  if (!values) return undefined;
  const suits = (changes: readonly Change[]) => fits(with_(input, changes), room);
  const changes = values.map((own) => own.at(-1) as Change);
  if (!suits(changes)) return undefined;
  for (let i = values.length - 1; i >= 0; i--) {
    const milder = values[i]?.find((change) => suits(changes.with(i, change)));
    if (milder) changes[i] = milder;
  }
  return changes;
}

/** Flags that make the plan fit: as few as possible, and of those sets the mildest. Undefined when no set does. */
export function waysToFit(input: PlanInput, room: Room): string[] | undefined {
  for (let count = 0; count <= asked.length + MOST; count++) {
    for (const chosen of subsets(remedies, count)) {
      if (chosen.filter((remedy) => !asked.includes(remedy)).length > MOST) continue;
      const changes = mildest(input, chosen, room);
      if (changes) return changes.map(({ flag }) => flag);
    }
  }
  return undefined;
}
