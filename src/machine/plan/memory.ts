/**
 * The memory plan: the peak need of a run, computed before anything is loaded, for the places where memory can run out,
 * the GPU and the host, and a GPU of the learner's own. On a CPU everything is on the host. File caches of the system are not counted.
 * bench/memory-plan.ts compares the plan with measured use.
 */
import { baseMemory, type EngineMemory, engineMemory, judgeMemory } from "./engine-memory.js";
import { judgeContext, learnsOnCuda, type PlanInput, type PlanRow, type Rows } from "./input.js";
import { learnerHost, learnerMemory } from "./learner-memory.js";
import { servedRows } from "./served-memory.js";

export interface PlacePlan {
  /** Needed at the same time during rollouts. */
  readonly playing: readonly PlanRow[];
  /** Needed at the same time during an update. */
  readonly learning: readonly PlanRow[];
  /** The larger of the two sums. */
  readonly peak: number;
}

export interface Plan {
  readonly host: PlacePlan;
  /** null where there is no GPU, or it has no memory of its own. */
  readonly gpu: PlacePlan | null;
  /** The learner's card, where it has one of its own. */
  readonly learnerGpu: PlacePlan | null;
}

export const sumOf = (rows: readonly PlanRow[]) => rows.reduce((total, { bytes }) => total + bytes, 0);

/** The rows of the phase in which a place is fullest. */
export const fullest = ({ playing, learning }: PlacePlan): readonly PlanRow[] =>
  sumOf(playing) >= sumOf(learning) ? playing : learning;

function place(playing: readonly PlanRow[], learning: readonly PlanRow[]): PlacePlan {
  const used = (rows: readonly PlanRow[]) => rows.filter(({ bytes }) => bytes > 0);
  return { playing: used(playing), learning: used(learning), peak: Math.max(sumOf(playing), sumOf(learning)) };
}

/** A judge's rows while it may be asked. During an update it sleeps without its weights. */
function judgeRows({ judge }: PlanInput, memory: EngineMemory | null | undefined): PlanRow[] {
  if (!judge || !memory) return [];
  return [
    { name: "judge: weights", bytes: memory.weights },
    { name: `judge: KV of ${judge.concurrency} × ${judgeContext(judge)} tokens`, bytes: memory.kv },
    { name: "judge: computing", bytes: memory.compute + memory.process },
  ];
}

/** A frozen base's rows while rollouts are played. */
function baseRows({ base }: PlanInput, memory: EngineMemory | null | undefined): PlanRow[] {
  if (!base || !memory) return [];
  return [
    { name: `frozen base: KV of ${base.sequences} × ${base.contextPerSequence} tokens`, bytes: memory.kv },
    { name: "frozen base: computing", bytes: memory.compute },
  ];
}

/** The engine's rows while it plays, and while it sleeps without its KV and, if requested, its weights. */
function engineRows(input: PlanInput, { weights, kv, compute, process }: EngineMemory): Rows {
  const held: PlanRow = { name: "engine: weights", bytes: weights };
  const itself: PlanRow = { name: "engine: process", bytes: process };
  const playing: PlanRow[] = [
    itself,
    held,
    { name: `engine: KV of ${input.concurrency} × ${input.context} tokens`, bytes: kv },
    { name: "engine: computing", bytes: compute },
  ];
  return { playing, sleeping: input.releaseWeights ? [itself] : [itself, held] };
}

/** The rows of the engine, by place, with a frozen base's and a judge's beside it. */
function placesOf(input: PlanInput): { host: Rows; gpu: Rows | null } {
  const local = input.served ? undefined : engineMemory(input);
  const { host, gpu } = local
    ? { host: engineRows(input, local.host), gpu: local.gpu && engineRows(input, local.gpu) }
    : servedRows(input);
  const judge = judgeMemory(input);
  const base = baseMemory(input);
  const beside = (rows: Rows, place: "host" | "gpu"): Rows => {
    const playing = [...rows.playing, ...baseRows(input, base?.[place]), ...judgeRows(input, judge?.[place])];
    return { playing, sleeping: input.awake ? playing : rows.sleeping };
  };
  const onGpu = gpu ?? (judge?.gpu ? { playing: [], sleeping: [] } : null);
  return { host: beside(host, "host"), gpu: onGpu && beside(onGpu, "gpu") };
}

/** Bytes of an engine that is loaded and awake. */
export function engineHolds(input: PlanInput): { readonly host: number; readonly gpu: number } {
  const { host, gpu } = placesOf({ ...input, base: undefined, judge: null });
  const onGpu = gpu ? sumOf(gpu.playing) : 0;
  return input.gpu === "metal"
    ? { host: sumOf(host.playing) + onGpu, gpu: 0 }
    : { host: sumOf(host.playing), gpu: onGpu };
}

export function planMemory(input: PlanInput): Plan {
  const engine = placesOf(input);
  const learner = learnerMemory(input);
  const apart = learnsOnCuda(input);
  const itself: PlanRow = { name: "learner: process", bytes: learner.process };
  const model: PlanRow = { name: "learner: weights", bytes: learner.weights };
  const adapter: PlanRow = { name: "learner: adapter and optimizer", bytes: learner.adapter };
  const pass: PlanRow = { name: `learner: a pass of ${learner.tokens} tokens`, bytes: learner.pass };

  /** The learner's place, beside `rows` of the engine. */
  const shared = ({ playing, sleeping }: Rows): PlacePlan => {
    const away = input.learnerLifetime === "offload" && apart;
    const between = input.learnerLifetime === "step" ? [] : away ? [itself] : [itself, model, adapter];
    return place([...playing, ...between], [...sleeping, itself, model, adapter, pass]);
  };
  const { host: onHost, gpu: onGpu } = engine;
  const gpuRows = onGpu ?? { playing: [], sleeping: [] };
  if (!apart) {
    // Metal's GPU uses the host's memory.
    const both = {
      playing: [...onHost.playing, ...gpuRows.playing],
      sleeping: [...onHost.sleeping, ...gpuRows.sleeping],
    };
    if (!onGpu || input.gpu === "metal") return { host: shared(both), gpu: null, learnerGpu: null };
    return { host: shared(onHost), gpu: place(onGpu.playing, onGpu.sleeping), learnerGpu: null };
  }

  const { process, loading } = learnerHost(input);
  const python: PlanRow = { name: "learner: Python with CUDA", bytes: process };
  const reading: PlanRow = { name: "learner: reading weights", bytes: loading };
  const stored: PlanRow[] =
    input.learnerLifetime === "offload" ? [{ ...model, name: "learner: weights between updates" }, adapter] : [];
  // A learner that stays is loaded during the first rollouts, another one while the engine sleeps.
  const step = input.learnerLifetime === "step";
  const host = place(
    [...onHost.playing, ...(step ? [] : [python, ...larger([reading], stored)])],
    [...onHost.sleeping, python, ...(step ? [reading] : stored)],
  );
  if (input.learnerOn !== "own card") return { host, gpu: shared(gpuRows), learnerGpu: null };
  return {
    host,
    gpu: place(gpuRows.playing, gpuRows.sleeping),
    learnerGpu: shared({ playing: [], sleeping: [] }),
  };
}

const larger = (a: readonly PlanRow[], b: readonly PlanRow[]) => (sumOf(a) >= sumOf(b) ? a : b);
