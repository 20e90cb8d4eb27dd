/** Who computes what on the cards of a cluster: every way that hone's options allow, with its memory and its time. */
import { MOST_SEQUENCES } from "../config/index.js";
import type { Assumptions } from "./assumptions.js";
import { roomOfCard } from "./by-default.js";
import type { Cluster } from "./cluster.js";
import { type Free, withFreeChanges } from "./fit.js";
import type { PlanInput, PlanRow } from "./input.js";
import { mainMemory } from "./machine.js";
import { fullest, planMemory, sumOf } from "./memory.js";
import { fits, type Room, waysToFit } from "./remedies.js";
import { withWideRows } from "./rows.js";
import { serverMemory } from "./served-memory.js";
import { atOnce, busiest, type Part, type Players, partsOf, secondsOf } from "./step-time.js";
import { stepTokens, type Workload } from "./workload.js";

/** What a step is planned for. */
export interface PlannedRun {
  readonly work: Workload;
  /** As asked for; `gpu` is that of the cluster. */
  readonly input: PlanInput;
  readonly free: Free;
  /** The only engine that is planned; undefined: both. */
  readonly engine?: "llama.cpp" | "vllm" | undefined;
  /** Share of a card's memory for the vLLM server that hone starts. */
  readonly engineMemory: number;
  /** The next step is played during the update (`--staleness 1`): only ways with the engine on other cards. */
  readonly ahead?: boolean;
}

/** Memory of one place. */
export interface Place {
  readonly name: string;
  readonly rows: readonly PlanRow[];
  readonly bytes: number;
  /** Usable bytes; null: not planned for. */
  readonly room: number | null;
}

export interface Layout {
  readonly name: string;
  /** As written on the command line of `yarn train`. */
  readonly flags: readonly string[];
  /** Of the servers that it needs; undefined without. */
  readonly server?: string | undefined;
  readonly cardsUsed: number;
  readonly parts: readonly Part[];
  readonly seconds: number;
  readonly places: readonly Place[];
}

export interface Misfit {
  readonly name: string;
  /** Options that would make it fit; undefined: none would. */
  readonly flags?: readonly string[] | undefined;
}

export interface Layouts {
  readonly best: Layout | undefined;
  readonly others: readonly Layout[];
  readonly misfits: readonly Misfit[];
}

/** Ways whose times differ by less are alike: the arithmetic is no more exact. */
export const ALIKE = 1.05;

/** Of vLLM: its --gpu-memory-utilization. */
const UTILIZATION = 0.9;
/** Fewer rollouts at once are not worth a server. */
const FEWEST = 4;

const GIB = 2 ** 30;

/** Rooms of a machine of the cluster: its main memory is not planned for where it is another one than this. */
function roomOf({ device }: Cluster): Room {
  return device.memory === null ? { host: mainMemory().total, gpu: 0 } : roomOfCard(device.memory);
}

/** As a run makes itself fit (fit.ts); undefined where it does not. */
function fitted(run: PlannedRun, wanted: PlanInput, room: Room): PlanInput | undefined {
  const input = withFreeChanges(wanted, run.free, room);
  if (!fits(input, room)) return undefined;
  return run.free.microBatchTokens ? withWideRows(input, room) : input;
}

/** Options that hone sets by itself, as it says them. */
function changes(wanted: PlanInput, input: PlanInput): string {
  const made = [
    input.gradientCheckpointing && !wanted.gradientCheckpointing ? "checkpointing" : "",
    input.concurrency < wanted.concurrency ? `${input.concurrency} at once` : "",
  ].filter((text) => text !== "");
  return made.length > 0 ? ` (${made.join(", ")})` : "";
}

const placeOf = (name: string, rows: readonly PlanRow[], room: number | null): Place => ({
  ...{ name, rows, bytes: sumOf(rows), room },
});

/** "card 2", "cards 2 to 4"; `from` is the first, from 1. */
const cardsText = (from: number, count: number) =>
  count === 1 ? `card ${from}` : `cards ${from} to ${from + count - 1}`;

const launch = (ranks: number, { shards }: PlanInput) => [
  ...(ranks > 1 ? [`--learner-launch "torchrun --nproc-per-node ${ranks}"`] : []),
  ...(shards === undefined ? [] : [`--learner-shards ${shards}`]),
];

const partsText = ({ shards }: PlanInput) => (shards === undefined ? "" : ", a part of the weights on each");

const playedAhead = ({ ahead }: PlannedRun) => (ahead ? ["--staleness 1"] : []);

/** Rows of a card that has the learner alone. */
const learnerRows = (input: PlanInput) => fullest(planMemory({ ...input, served: { own: null } }).gpu ?? empty);
const empty = { playing: [], learning: [], peak: 0 };

/** llama.cpp in hone's process, on the learner's first card. */
function inProcess(cluster: Cluster, run: PlannedRun, ranks: number, assumed: Assumptions): Layout | Misfit {
  const room = roomOf(cluster);
  const alone = cluster.device.kind === "cpu" ? "llama.cpp and learner" : "llama.cpp and learner on card 1";
  const name = `${ranks > 1 ? `${alone}, learner on ${cardsText(2, ranks - 1)} too` : alone}${partsText(run.input)}`;
  const input = fitted(run, run.input, room);
  if (!input) return { name, flags: waysToFit(run.input, room) };
  const { host, gpu } = planMemory(input);
  const players: Players = { engines: 1, cards: 1, concurrency: input.concurrency };
  const parts = partsOf({ device: cluster.device, work: run.work, input, players, ranks, rankMachines: 1 }, assumed);
  const cards = gpu
    ? [
        placeOf("card 1", fullest(gpu), room.gpu),
        ...(ranks > 1
          ? [placeOf(`${cardsText(2, ranks - 1)}${ranks > 2 ? ", each" : ""}`, learnerRows(input), room.gpu)]
          : []),
      ]
    : [];
  return {
    name: `${name}${changes(run.input, input)}`,
    flags: launch(ranks, input),
    cardsUsed: ranks,
    parts,
    seconds: secondsOf(parts),
    places: [...cards, placeOf("main memory", fullest(host), gpu ? null : room.host)],
  };
}

/** llama.cpp on the first card, the learner on the second. */
function apart(cluster: Cluster, run: PlannedRun, assumed: Assumptions): Layout | Misfit {
  const one = roomOf(cluster);
  const room = { ...one, learnerGpu: one.gpu };
  const name = "llama.cpp on card 1, learner on card 2";
  const wanted: PlanInput = { ...run.input, learnerOn: "own card", awake: true };
  const input = fitted(run, wanted, room);
  if (!input) return { name, flags: waysToFit(wanted, room) };
  const { host, gpu, learnerGpu } = planMemory(input);
  const players: Players = { engines: 1, cards: 1, concurrency: input.concurrency };
  const parts = partsOf({ device: cluster.device, work: run.work, input, players, ranks: 1, rankMachines: 1 }, assumed);
  return {
    name: `${name}${changes(run.input, input)}`,
    flags: ["--device 0 --learner-device 1", ...playedAhead(run)],
    cardsUsed: 2,
    parts,
    seconds: secondsOf(parts, run.ahead),
    places: [
      placeOf("card 1", fullest(gpu ?? empty), room.gpu),
      placeOf("card 2", fullest(learnerGpu ?? empty), room.gpu),
      placeOf("main memory", fullest(host), null),
    ],
  };
}

/** A vLLM server that hone starts on the learner's card. */
function ownServer(cluster: Cluster, run: PlannedRun, assumed: Assumptions): Layout | Misfit {
  const room = roomOf(cluster);
  const onGpu = cluster.device.kind === "cuda";
  const own = {
    rests: onGpu ? "sleeps" : "stays",
    gpu: onGpu ? run.engineMemory * (cluster.device.memory ?? 0) * GIB : 0,
  } as const;
  const name = "vLLM that hone starts, beside the learner";
  const input = fitted(run, { ...run.input, served: { own } }, room);
  if (!input || (onGpu && own.gpu < serverMemory(input, 1).fixed)) return { name };
  const { host, gpu } = planMemory(input);
  const served = onGpu && input.served?.own?.rests === "sleeps" ? "sleeps" : "here";
  const players: Players = { engines: 1, cards: 1, concurrency: input.concurrency, served };
  const parts = partsOf({ device: cluster.device, work: run.work, input, players, ranks: 1, rankMachines: 1 }, assumed);
  return {
    name: `${name}${changes(run.input, input)}`,
    flags: ["--engine vllm"],
    cardsUsed: 1,
    parts,
    seconds: secondsOf(parts),
    places: [
      ...(gpu ? [placeOf("card 1", fullest(gpu), room.gpu)] : []),
      placeOf("main memory", fullest(host), gpu ? null : room.host),
    ],
  };
}

/** Servers that somebody starts: `first` of them on the learner's machine, each other machine has `others`. */
interface Servers {
  readonly cards: number;
  readonly first: number;
  readonly others: number;
  readonly machines: number;
}

const braces = (from: number, count: number) => (count === 1 ? `${from}` : `{${from}..${from + count - 1}}`);

/** Their addresses, as bash expands them. */
function urlsOf({ first, others, machines }: Servers): string {
  return [
    ...(first > 0 ? [`http://127.0.0.1:${braces(8000, first)}`] : []),
    ...(others > 0 && machines > 1 ? [`http://machine-${braces(2, machines - 1)}:${braces(8000, others)}`] : []),
  ].join(" ");
}

/** vLLM servers on cards of their own, the learner on the first cards of the first machine. */
function servers(
  cluster: Cluster,
  run: PlannedRun,
  ranks: number,
  each: Servers,
  assumed: Assumptions,
): Layout | Misfit {
  const room = roomOf(cluster);
  const { work } = run;
  const count = each.first + each.others * (each.machines - 1);
  const spread = each.cards > 1 ? ` over ${each.cards} cards${count > 1 ? " each" : ""}` : "";
  const name = `learner on ${cardsText(1, ranks)}${partsText(run.input)}, ${count} vLLM server${count > 1 ? "s" : ""}${spread}`;
  const rollouts = work.groups * work.groupSize;
  const wanted = { ...run.input, served: { own: null } };
  const most = run.free.concurrency ? Math.min(rollouts, MOST_SEQUENCES) : run.input.concurrency;
  const input = fitted(run, wanted, room);
  const memory = serverMemory(run.input, each.cards);
  const { length } = stepTokens(work);
  const space = UTILIZATION * (cluster.device.memory ?? 0) * GIB - memory.fixed;
  const places = Math.floor(space / (length * memory.kvToken));
  const players: Players = {
    engines: count,
    cards: each.cards,
    concurrency: most,
    served: each.others > 0 ? "elsewhere" : "here",
  };
  const held = Math.min(places, atOnce(work, players));
  if (!input || held < Math.min(FEWEST, busiest(work, players))) return { name };
  const concurrency = Math.min(most, held * count);
  const served = { ...players, concurrency };
  const rankMachines = 1;
  const parts = partsOf({ device: cluster.device, work, input, players: served, ranks, rankMachines }, assumed);
  const kv = { name: `vLLM: KV of ${held} × ${Math.round(length)} tokens`, bytes: held * length * memory.kvToken };
  const changed = { ...input, concurrency: run.input.concurrency };
  return {
    name: `${name}${changes(run.input, changed)}`,
    flags: [
      `--engine vllm --engine-url ${urlsOf(each)}`,
      ...(each.others > 0 ? ["--engine-adapters /shared/adapters"] : []),
      ...(concurrency === run.input.concurrency || !run.free.concurrency ? [] : [`--concurrency ${concurrency}`]),
      ...launch(ranks, input),
      ...playedAhead(run),
    ],
    server: `${each.cards > 1 ? `--tensor-parallel-size ${each.cards}, ` : ""}docs/vllm.md says the rest`,
    cardsUsed: ranks + count * each.cards,
    parts,
    seconds: secondsOf(parts, run.ahead),
    places: [
      placeOf(`${cardsText(1, ranks)} (learner)${ranks > 1 ? ", each" : ""}`, learnerRows(input), room.gpu),
      placeOf("card of a server", [...memory.rows, kv], UTILIZATION * (cluster.device.memory ?? 0) * GIB),
      placeOf("main memory of the learner's machine", fullest(planMemory(input).host), null),
    ],
  };
}

const powers = (most: number) => [1, 2, 4, 8].filter((count) => count <= most);

/** The simplest of the fastest ways, the others from the fastest on, and those that do not fit. */
export function layoutsOn(cluster: Cluster, run: PlannedRun, assumed: Assumptions): Layouts {
  const { machines, cards, device } = cluster;
  const ways: (Layout | Misfit)[] = [];
  const onCuda = device.kind === "cuda";
  const offloads = run.input.learnerLifetime === "offload" || run.input.learner === "unsloth";
  const ranksOf = (most: number) => (offloads ? [1] : [...new Set([...powers(most), most])]);
  // Parts of the weights only where whole ones do not fit: they are gathered in every pass.
  const add = (ranks: number, way: (run: PlannedRun) => Layout | Misfit) => {
    const whole = way(run);
    const split = "parts" in whole || ranks === 1 ? whole : way({ ...run, input: { ...run.input, shards: ranks } });
    ways.push("parts" in split ? split : whole);
  };
  if (run.engine !== "vllm" && !run.ahead)
    for (const ranks of onCuda ? ranksOf(cards) : [1]) add(ranks, (one) => inProcess(cluster, one, ranks, assumed));
  if (run.engine === "vllm" && !run.ahead) ways.push(ownServer(cluster, run, assumed));
  const resting = run.input.releaseWeights || run.input.learnerLifetime === "offload";
  if (run.engine !== "vllm" && onCuda && cards > 1 && !resting) ways.push(apart(cluster, run, assumed));
  // vLLM computes with the model's own weights; hone's servers have them in 16 bits.
  const served = run.engine !== "llama.cpp" && onCuda && machines * cards > 1 && canServe(run.input);
  for (const each of served ? powers(cards).filter((count) => run.input.shape.heads % count === 0) : []) {
    const mostRanks = machines > 1 ? cards : cards - each;
    for (const ranks of ranksOf(mostRanks).filter((count) => count > 0)) {
      const first = Math.floor((cards - ranks) / each);
      const others = machines > 1 ? Math.floor(cards / each) : 0;
      if (first + others * (machines - 1) === 0) continue;
      add(ranks, (one) => servers(cluster, one, ranks, { cards: each, first, others, machines }, assumed));
    }
  }
  const fit = ways.filter((way): way is Layout => "parts" in way);
  const fastest = Math.min(...fit.map(({ seconds }) => seconds));
  // The first ways are the simplest.
  const best = fit.find(({ seconds }) => seconds <= ALIKE * fastest);
  const others = fit.filter((way) => way !== best).sort((a, b) => a.seconds - b.seconds);
  return { best, others, misfits: ways.filter((way): way is Misfit => !("parts" in way)) };
}

/** Whether vLLM takes weights of this type as hone writes them. */
const canServe = ({ shape }: PlanInput) => ["F16", "BF16", "F32"].includes(shape.weightType);
