/** `yarn hone plan`: a step on given cards, the fastest way to compute it there, and what to add. */
import { ROLLOUTS_AT_ONCE, sizedDefaults } from "../config/index.js";
import { decodeThreads, lanesOf, type ModelShape } from "../engine/index.js";
import { UsageError } from "../util/index.js";
import { type Assumptions, ON_CPU, readAssumptions } from "./assumptions.js";
import { defaultRun } from "./by-default.js";
import { type Cluster, isCpu, readCluster } from "./cluster.js";
import type { PlanInput } from "./input.js";
import { type Layout, layoutsOn, type Misfit, type PlannedRun } from "./layouts.js";
import { type Addition, additions } from "./next.js";
import { type StepTokens, stepTokens, type Workload } from "./workload.js";

/** Options of training, where they are given, and the expected lengths of rollouts. */
export interface PlanOptions {
  readonly cards: string;
  readonly assume?: Readonly<Record<string, unknown>> | undefined;
  readonly groupsPerStep?: number | undefined;
  readonly groupSize?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly context?: number | undefined;
  readonly loraRank?: number | undefined;
  readonly loraTargets?: readonly string[] | undefined;
  readonly microBatchTokens?: number | undefined;
  readonly gradientCheckpointing?: boolean | undefined;
  readonly learnerLifetime?: PlanInput["learnerLifetime"] | undefined;
  readonly releaseWeights?: boolean | undefined;
  readonly precision?: PlanInput["precision"] | undefined;
  readonly learner?: PlanInput["learner"] | undefined;
  readonly engine?: "llama.cpp" | "vllm" | undefined;
  readonly engineMemory: number;
  readonly promptTokens: number;
  readonly turns: number;
  readonly turnTokens: number;
  readonly resultTokens: number;
  readonly judgeSeconds: number;
}

export interface StepPlan {
  readonly shape: ModelShape;
  readonly cluster: Cluster;
  readonly assumed: Assumptions;
  readonly work: Workload;
  readonly tokens: StepTokens;
  /** The simplest of the fastest ways; undefined where none fits. */
  readonly best: Layout | undefined;
  /** Other ways on the same cards, the fastest first. */
  readonly others: readonly Layout[];
  readonly misfits: readonly Misfit[];
  readonly next: readonly Addition[];
}

/** The options that are given, over those of `input`. */
function withGiven(input: PlanInput, options: PlanOptions): PlanInput {
  const { concurrency, context, loraRank, loraTargets, microBatchTokens, gradientCheckpointing } = options;
  const { learnerLifetime, releaseWeights, precision, learner } = options;
  const given = { concurrency, context, loraRank, loraTargets, microBatchTokens, gradientCheckpointing };
  const more = { learnerLifetime, releaseWeights, precision, learner };
  const set = Object.entries({ ...given, ...more }).filter(([, value]) => value !== undefined);
  return { ...input, ...Object.fromEntries(set) };
}

/**
 * @throws UsageError for cards or assumptions that are not known, and for rollouts that are longer than the context
 */
export function planStep(shape: ModelShape, options: PlanOptions): StepPlan {
  const assumed = readAssumptions(options.assume, isCpu(options.cards) ? ON_CPU : {});
  const cluster = readCluster(options.cards, assumed);
  const run = plannedRun(shape, options, cluster);
  const { best, others, misfits } = layoutsOn(cluster, run, assumed);
  const next = additions(cluster, run, best, assumed);
  return { shape, cluster, assumed, work: run.work, tokens: stepTokens(run.work), best, others, misfits, next };
}

function plannedRun(shape: ModelShape, options: PlanOptions, { device }: Cluster): PlannedRun {
  const gpu = device.kind === "cuda" ? "cuda" : false;
  const threads = gpu === false ? decodeThreads(undefined) : 1;
  const standard = sizedDefaults(shape.parameters);
  const { groupsPerStep: groups = standard.groupsPerStep, groupSize = standard.groupSize } = options;
  const { promptTokens: prompt, turns, turnTokens, resultTokens, judgeSeconds } = options;
  const work: Workload = { groups, groupSize, prompt, turns, turnTokens, resultTokens, judgeSeconds };
  const most = Math.min(groups * groupSize, gpu ? ROLLOUTS_AT_ONCE.gpu : ROLLOUTS_AT_ONCE.cpu);
  const asked = withGiven({ ...defaultRun(shape, gpu, threads), concurrency: most }, options);
  const input = { ...asked, lanes: lanesOf(shape.bytes, gpu, threads, asked.concurrency) };
  const { length } = stepTokens(work);
  if (length > input.context) {
    throw new UsageError(
      `--context ${input.context}: a rollout of ${prompt} + ${turns} × ${turnTokens} + ${Math.max(0, turns - 1)} × ${resultTokens} tokens is longer (${length}); give a longer context or fewer --prompt-tokens, --turns, --turn-tokens or --result-tokens`,
    );
  }
  const free = {
    concurrency: options.concurrency === undefined,
    gradientCheckpointing: options.gradientCheckpointing === undefined,
    microBatchTokens: options.microBatchTokens === undefined,
  };
  return { work, input, free, engine: options.engine, engineMemory: options.engineMemory };
}
