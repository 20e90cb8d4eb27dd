/**
 * Seconds of a step, by arithmetic: work takes as long as its bytes or its products, whichever is longer (the roofline of
 * Williams, Waterman and Patterson 2009), and besides what kernels, copies and waits cost. Not in it: tasks' own tools, the
 * host's part of sampling, validations.
 */
import { attendingLayers, UBATCH } from "../engine/index.js";
import type { Assumptions } from "./assumptions.js";
import type { Device } from "./cluster.js";
import { linearParameters } from "./engine-memory.js";
import { adapterParameters, type PlanInput } from "./input.js";
import { learnerMemory } from "./learner-memory.js";
import { type StepTokens, stepTokens, type Workload } from "./workload.js";

/** One part of a step. */
export interface Part {
  readonly name: string;
  /** With --staleness what plays and what updates are at the same time. */
  readonly phase: "play" | "update" | "swap";
  readonly seconds: number;
  /** What bounds it, in words. */
  readonly bound: string;
}

/** Who plays. */
export interface Players {
  /** Engines, each with a share of the groups. */
  readonly engines: number;
  /** Cards of each. */
  readonly cards: number;
  /** Rollouts at once, of all engines together. */
  readonly concurrency: number;
  /** vLLM servers: how what they have crosses to them. Undefined: llama.cpp in hone's process. */
  readonly served?: "sleeps" | "here" | "elsewhere" | undefined;
}

export interface Step {
  readonly device: Device;
  readonly work: Workload;
  readonly input: PlanInput;
  readonly players: Players;
  /** Processes of the learner, each on a card, and whether they are on several machines. */
  readonly ranks: number;
  readonly rankMachines: number;
}

/** Bytes of weights that a pass reads: all of them, but of an untied table of embeddings only rows. */
const weightBytes = ({ shape }: PlanInput) => (shape.bytes * readParameters(shape)) / shape.parameters;
/** Weights in the products of a pass: layers and the output layer. */
const readParameters = (shape: PlanInput["shape"]) => linearParameters(shape) + shape.vocabulary * shape.embedding;

/** f32 of an adapter. */
export const adapterBytes = ({ shape, loraRank, loraTargets }: PlanInput) =>
  4 * adapterParameters(shape, loraRank, loraTargets);

/** Bytes of the KV of a token in 16 bits. */
export const kvBytes = (shape: PlanInput["shape"]) =>
  2 * 2 * attendingLayers(shape).length * shape.kvHeads * shape.headSize;

/** Operations of one query of all heads and layers with one key and its value. */
const attentionOf = (shape: PlanInput["shape"]) => 4 * attendingLayers(shape).length * shape.heads * shape.headSize;

/** llama.cpp multiplies f16 weights in f32 on CUDA where a pass has more rows (src/engine/sums.ts, docs/gpu.md). */
const ROWS_IN_16_BITS = 16;
/** Bytes for one of a matrix in f16 whose values in f32 are written and read again. */
const IN_F32 = 5;
/** All-reduces of a layer under tensor parallelism, and seconds of the shortest one. */
const REDUCES = 2;
const REDUCE = 2e-5;

interface Bound {
  readonly seconds: number;
  readonly bound: string;
}

function slower(bytes: number, products: number): Bound {
  return bytes >= products ? { seconds: bytes, bound: "reading memory" } : { seconds: products, bound: "products" };
}

/** A pass of so many rows, each of which attends to `attended` tokens; `cells` are read from KV. */
function pass(step: Step, assumed: Assumptions, rows: number, attended: number, cells: number): Bound {
  const { device, input, players } = step;
  const { shape } = input;
  const exact = device.kind === "cuda" && !players.served && shape.weightType === "F16" && rows > ROWS_IN_16_BITS;
  const bytes = (exact ? IN_F32 : 1) * weightBytes(input) + adapterBytes(input) + cells * kvBytes(shape);
  const numbers = readParameters(shape) + adapterBytes(input) / 4;
  const operations = rows * (2 * numbers + attended * attentionOf(shape));
  const both = slower(
    bytes / (players.cards * assumed.bandwidth * device.bandwidth),
    operations / (players.cards * assumed.products * (exact ? device.f32 : device.products)),
  );
  const kernels = device.kind === "cuda" ? shape.layers * (players.served ? assumed.servedPass : assumed.pass) : 0;
  const others = players.cards - 1;
  // A ring passes every row on twice, in 16 bits.
  const ring = (rows * shape.embedding * 2 * 2 * others) / players.cards / (assumed.bus * device.link);
  const parallel = others > 0 ? shape.layers * REDUCES * (REDUCE + ring) : 0;
  return {
    seconds: both.seconds + kernels + parallel,
    bound: kernels > both.seconds ? "launching kernels" : both.bound,
  };
}

/** Rollouts of the engine with the most groups, which stay on their engine. */
export const busiest = ({ groups, groupSize }: Workload, { engines }: Players) =>
  Math.ceil(groups / engines) * groupSize;

/** Rollouts that one engine plays at once. */
export const atOnce = (work: Workload, players: Players) =>
  Math.max(1, Math.min(busiest(work, players), Math.floor(players.concurrency / players.engines)));

type Work = Omit<Part, "phase">;

function rolloutParts(step: Step, tokens: StepTokens, assumed: Assumptions): Work[] {
  const { work, players, input } = step;
  const share = busiest(work, players) / tokens.rollouts;
  const read = tokens.read * share;
  const ubatch = Math.max(input.ubatch, UBATCH);
  const readPasses = Math.ceil(read / ubatch);
  const reading = pass(step, assumed, Math.min(read, ubatch), tokens.attended / 2, 0);
  const places = atOnce(work, players);
  const rows = Math.max(1, assumed.busy * places);
  const passes = (tokens.sampled * share) / rows;
  const decoding = pass(step, assumed, rows, tokens.attended, rows * tokens.attended);
  const count = Math.round(passes).toLocaleString("en");
  return [
    { name: "rollouts: prompts and results", seconds: readPasses * reading.seconds, bound: reading.bound },
    {
      name: "rollouts: decoding",
      seconds: passes * decoding.seconds,
      bound: `${decoding.bound}, ${count} passes of ${Math.round(rows)} tokens`,
    },
  ];
}

/** Bytes of weights in other types than 16 or 32 bits are made into values in each pass of the learner. */
const isBlocks = ({ shape }: PlanInput) => !["F16", "BF16", "F32"].includes(shape.weightType);

function updateParts(step: Step, tokens: StepTokens, assumed: Assumptions): Work[] {
  const { device, input, ranks, rankMachines } = step;
  const { shape, gradientCheckpointing } = input;
  const linear = linearParameters(shape);
  const adapter = adapterBytes(input) / 4;
  const output = shape.vocabulary * shape.embedding;
  const again = gradientCheckpointing ? 1 : 0;
  const attention = attentionOf(shape) * tokens.attended;
  // Frozen weights: a product forward, one backward for the inputs' gradients; of an adapter also the weights' own.
  const position = 2 * linear * (2 + again) + 2 * adapter * (3 + again) + attention * (3 + again);
  const operations = tokens.positions * position + tokens.sampled * 6 * output;
  const rate = assumed.updates * device.products;
  const rows = Math.ceil(tokens.positions / ranks / input.microBatchTokens);
  const values = isBlocks(input) ? 2 * 2 * linear : 0;
  const bytes = rows * (2 + again) * (weightBytes(input) + values);
  const work = slower(bytes / (assumed.bandwidth * device.bandwidth), operations / ranks / rate);
  const launches = device.kind === "cuda" ? rows * shape.layers * assumed.launches * assumed.launch : 0;
  const update = launches > work.seconds ? { seconds: launches, bound: "launching kernels" } : work;
  // Forward passes by two policies.
  const scored = assumed.checked * 2 * (tokens.positions * (2 * linear + attention) + tokens.sampled * 2 * output);
  const parts: Work[] = [
    {
      name: "update: forward and backward",
      ...update,
      bound: `${update.bound}, ${rows} rows${ranks > 1 ? " a rank" : ""}`,
    },
    { name: "update: which policy played", seconds: scored / ranks / rate, bound: "products" },
  ];
  if (ranks > 1) {
    const link = rankMachines > 1 ? assumed.network : assumed.bus * device.link;
    const seconds = (2 * 4 * adapter * (ranks - 1)) / ranks / link;
    const bound = rankMachines > 1 ? "network" : "link";
    parts.push({ name: "update: sum of the ranks' gradients", seconds, bound });
    if (input.shards !== undefined) {
      // Each pass over a row gathers the others' parts of the weights.
      const gathered = (rows * (2 + again) * (weightBytes(input) * (ranks - 1))) / ranks;
      parts.push({ name: "update: gathering the ranks' weights", seconds: gathered / link, bound });
    }
  }
  return parts;
}

/** What moves between playing and learning. */
function swapParts(step: Step, assumed: Assumptions): Work[] {
  const { device, input, players } = step;
  const bus = assumed.bus * device.bus;
  const adapter = adapterBytes(input);
  const learner = learnerMemory(input);
  const parts: Work[] = [];
  const add = (name: string, seconds: number, bound: string) => parts.push({ name, seconds, bound });
  // Written, and read by each engine.
  add("adapter to the engines", (adapter * (1 + players.engines)) / assumed.disk, "disk");
  if (players.served === "elsewhere")
    add("adapter over the network", (adapter * players.engines) / assumed.network, "network");
  if (players.served === "sleeps") add("vLLM's weights out and in", (2 * input.shape.bytes) / bus, "bus");
  if (input.releaseWeights && !players.served) add("engine's weights again", input.shape.bytes / bus, "bus");
  if (input.learnerLifetime === "offload") {
    add("learner's weights out and in", (2 * (learner.weights + learner.adapter)) / bus, "bus");
  }
  if (input.learnerLifetime === "step") {
    add("learner started again", assumed.start + input.shape.bytes / assumed.disk, "start, disk");
  }
  // Weight and two moments, written and read back.
  add("checkpoint", (2 * 3 * adapter) / assumed.disk, "disk");
  return parts;
}

/** The parts of a step, one after the other. */
export function partsOf(step: Step, assumed: Assumptions): Part[] {
  const tokens = stepTokens(step.work);
  const { judgeSeconds } = step.work;
  const judge = { name: "waiting for the judge", seconds: judgeSeconds, bound: "--judge-seconds" };
  const played = [...rolloutParts(step, tokens, assumed), ...(judgeSeconds > 0 ? [judge] : [])];
  return [
    ...played.map((part): Part => ({ ...part, phase: "play" })),
    ...updateParts(step, tokens, assumed).map((part): Part => ({ ...part, phase: "update" })),
    ...swapParts(step, assumed).map((part): Part => ({ ...part, phase: "swap" })),
  ];
}

/** @param ahead the next step is played during the update, on other cards */
export function secondsOf(parts: readonly Part[], ahead = false): number {
  const of = (phase: Part["phase"]) =>
    parts.filter((part) => part.phase === phase).reduce((total, { seconds }) => total + seconds, 0);
  const [play, update] = [of("play"), of("update")];
  return (ahead ? Math.max(play, update) : play + update) + of("swap");
}
