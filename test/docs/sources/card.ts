/** Counts on a card that does not compute, and what follows from them, as docs/gpu.md has them. */
import { fetchedLibraries } from "../../../src/engine/libraries.js";
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

interface Row {
  readonly shape: string;
  readonly type: string;
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  readonly pooled: boolean;
  readonly rollouts: number;
  readonly context: number;
  readonly figures: Readonly<Record<string, { readonly value: number; readonly goal?: string }>>;
  readonly estimates: readonly { readonly card: string; readonly tokensPerSecond: number }[];
}

const rows: readonly Row[] = resultsOf("card-counts-engine-nvidia-h100-80gb-hbm3.json").rows;
const [slow, fast] = ["3060", "4090"].map((card) =>
  resultsOf(`card-counts-learner-0.5b-nvidia-geforce-rtx-${card}.json`),
);
const CARDS = [/3060$/, /4090$/, /H100/];
/** An engine has one pool of KV for up to so many sequences, unless told otherwise. */
const POOLED = 8;

const of = (row: Row, name: string) => row.figures[name]?.value ?? Number.NaN;
const whole = (value: number) => Math.round(value).toLocaleString("en-US");

function cellsOf(row: Row): string[] {
  const without = row.figures.kernelsPerPassWithoutAdapter;
  const usual = row.pooled === row.sequences <= POOLED ? "" : ", not the default";
  return [
    `${row.traffic} ${row.sequences}, ${row.pooled ? "one pool" : "separate KV"}${usual}`,
    of(row, "passesOverIdeal").toFixed(2),
    `${whole(of(row, "kernelsPerPass"))}${without ? ` (${whole(without.value)})` : ""}`,
    of(row, "launchesPerPass").toFixed(0),
    of(row, "replayedOfAllPasses").toFixed(2),
    of(row, "synchronisationsPerPass").toFixed(1),
    of(row, "attendedOverOwnedCells").toFixed(1),
    of(row, "paddingRowsPerPass").toFixed(1),
    CARDS.map((card) => row.estimates.find((one) => card.test(one.card))?.tokensPerSecond)
      .map((speed) => (speed === undefined ? "–" : whole(speed)))
      .join(", "),
  ];
}

const decode = (shape: string, type: string, sequences: number) =>
  rows.find(
    (row) => row.traffic === "decode" && row.shape === shape && row.type === type && row.sequences === sequences,
  ) as Row;
const onH100 = ({ estimates }: Row) =>
  estimates.find(({ card }) => card.includes("H100"))?.tokensPerSecond ?? Number.NaN;
/** Speed with f16 weights over that with bf16. */
const f16 = (shape: string) => (onH100(decode(shape, "f16", 64)) / onH100(decode(shape, "bf16", 64))).toFixed(2);
const all = (name: string, which: (row: Row) => boolean) => rows.filter(which).map((row) => of(row, name));
const most = (name: string, which: (row: Row) => boolean) => Math.max(...all(name, which));
const goal = (name: string, which: Row) => which.figures[name]?.goal;

const agents = rows.filter(({ traffic }) => traffic === "agents");
const usualAgents = agents.filter(({ shape, pooled, sequences }) => shape === "0.5b" && pooled === sequences <= POOLED);
const played = usualAgents.map(({ rollouts, sequences }) => `${rollouts} with ${sequences}`);
const widest = usualAgents.at(-1) as Row;
const later = slow.updates.slice(1);
const megabytes = (name: string) => fetchedLibraries[`@node-llama-cpp/linux-x64-${name}`]?.megabytes ?? Number.NaN;

const h200 = resultsOf("cuda-2026-11-26-nvidia-h200.json");
interface Timed {
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  /** Lowest, median and highest of the runs. */
  readonly withoutAdapter: readonly number[];
  readonly withAdapter: readonly number[];
}
function timedCells({ traffic, sequences, withoutAdapter, withAdapter }: Timed): string[] {
  const counted = rows.find(
    (row) =>
      row.shape === "0.5b" &&
      row.type === "bf16" &&
      row.traffic === traffic &&
      row.sequences === sequences &&
      (traffic === "decode" || row.pooled === sequences <= POOLED),
  ) as Row;
  const theirs = traffic === "decode" ? h200.llamaBatchedBench.tokensPerSecond[sequences] : undefined;
  return [
    `${traffic} ${sequences}`,
    whole(withoutAdapter[1] as number),
    theirs === undefined ? "–" : whole(theirs),
    whole(withAdapter[1] as number),
    whole(onH100(counted)),
  ];
}
const tenths = (value: number) => value.toFixed(1);
const range = (values: readonly number[], digits: number) =>
  `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
const [firstStep, ...laterSteps] = h200.steps.steps;
const lane = h200.lanes.seconds;
const oneLane = Object.entries<number>(lane).filter(([name]) => /^one lane($|, beside|, after)/.test(name));
const { hone, unsloth, gradNorm, profile } = h200.updates;
const share = (part: { planned: number; measured: number }) => (part.measured / part.planned).toFixed(2);

export const gpu: Source = {
  page: "docs/gpu.md",
  tables: [
    {
      header: "0.5B, bf16",
      rows: rows.filter(({ shape, type }) => shape === "0.5b" && type === "bf16").map(cellsOf),
    },
    { header: "H200, 0.5B, bf16", rows: h200.engine.rows.map(timedCells) },
  ],
  measured: [
    `works ${((100 * (h200.hostOfOneLane.ofDecodeThread - h200.hostOfOneLane.waitingForTheCard)) / h200.hostOfOneLane.ofDecodeThread).toFixed(0)} % of the time, on graphs and launches, and waits ${((100 * h200.hostOfOneLane.waitingForTheCard) / h200.hostOfOneLane.ofDecodeThread).toFixed(0)} % for the card`,
    `with them ${h200.lanes.sequences} agents took ${tenths(lane["two lanes"])} s, with one lane ${range(
      oneLane.map(([, seconds]) => seconds),
      1,
    )} s`,
    `are ${h200.parity[0].mean.toFixed(4)} nats from the CPU's, ${h200.parity[1].mean.toFixed(4)} with an adapter`,
    `were ${range(
      h200.steps.steps.map(({ mismatch }: { mismatch: number }) => mismatch),
      4,
    )} nats apart`,
    `took ${range(
      h200.steps.steps.map(({ seconds }: { seconds: { rollouts: number } }) => seconds.rollouts),
      1,
    )} s of rollouts and ${range(
      laterSteps.map(({ seconds }: { seconds: { update: number } }) => seconds.update),
      1,
    )} s of update; the first took ${firstStep.seconds.update.toFixed(0)} s to compile`,
    `used ${(h200.steps.card.measured / 1e9).toFixed(1)} GB of the card, where ${(h200.steps.card.planned / 1e9).toFixed(1)} were planned`,
    `within ${Math.ceil(10 * h200.kill.seconds_to_end) / 10} s. An update of 64 rollouts`,
    `took hone with PEFT ${range([hone.seconds, ...hone.later], 2)} s, of which the card worked ${(profile.cardMilliseconds / 1000).toFixed(2)}`,
    `share no prompts, ${unsloth.seconds.toFixed(2)} s`,
    `the gradient norms to ${(100 * Math.abs(gradNorm[0] / gradNorm[1] - 1)).toFixed(1)} %`,
    `| ${share(h200.steps.card)} of it used, of the learner's ${share(h200.steps.learner)} |`,
    `\`\`'s: ${h200.doctor.adapter.fromLearner} nats apart`,
    `an update of ${slow.rollouts} rollouts of ${whole(later[0].positions)} positions in Qwen2.5-0.5B's shape takes ${whole(
      Math.max(slow.most.launches, fast.most.launches),
    )} launches (goal: ${whole(slow.goals.launches)})`,
    `and ${Math.max(...[...later, ...fast.updates.slice(1)].map(({ waits }) => waits))} waits of the host`,
    `context ${whole(widest.context)}, ${played[0]?.replace(" with", " rollouts with")} at once, ${played[1]}, ${played[2]}`,
    `moved ${most("weightsMovedPerPass", ({ type }) => type === "bf16").toFixed(1)} times their size (${goal("weightsMovedPerPass", widest)})`,
    `${most("bytesToHostPerRow", ({ traffic }) => traffic === "decode").toFixed(0)} bytes to the host for a sampled token (${goal("bytesToHostPerRow", widest)}; ${widest.sequences} sequences of agents miss it with ${of(widest, "bytesToHostPerRow").toFixed(1)})`,
    `${most("synchronisationsPerPass", ({ traffic }) => traffic === "decode").toFixed(0)} waits of the host in a pass of tokens`,
    `${most("weightsMovedPerPass", ({ type, sequences }) => type === "f16" && sequences === 64).toFixed(1)} times their size is moved`,
    `64 sequences are estimated at ${f16("0.5b")} of bf16's speed with 0.5B and ${f16("7b")} with 7B`,
    `${megabytes("vulkan")} MB for Vulkan, ${megabytes("cuda")} for CUDA 13, ${megabytes("cuda") + megabytes("cuda-ext")} for CUDA 12`,
  ],
  declared: [
    ["every sequence samples 64 tokens", "bench/card/traffic.ts", "TOKENS = 64;"],
    ["after a prompt of 200", "bench/card/traffic.ts", "PROMPT = 200;"],
    ["groups of 8 with prompts of 600", "bench/card/traffic.ts", "groups of 8 with prompts of 600"],
    ["three turns of 20 to 80 tokens", "bench/card/traffic.ts", "sampled: next(20, 80)"],
    ["results of 50 to 250", "bench/card/traffic.ts", "next(50, 250)"],
    ["multiplied in f32 beyond 16 rows", "bench/card/estimate.ts", "rows > 16 * counts.passes"],
    ["0.6 of all passes replayed", "bench/card/goals.ts", "atLeast(replays, 0.6)"],
    ["passes 1.1 times", "bench/card/goals.ts", "atMost(over, 1.1)"],
    ["16 waits a pass", "bench/card/goals.ts", "atMost(counts.synchronisations / passes, 16)"],
    ["below 0.02 nats, below 0.05 with bf16 on a card", "src/guards/mismatch.ts", "? 0.02 : 0.05"],
    ["computes 192 MiB of logits", "native/learner/head.py", "CHUNK_BYTES_CUDA = 192 * 2**20"],
    ["64 MiB on a CPU", "native/learner/head.py", "CHUNK_BYTES = 64 * 2**20"],
    ["that matter most (``, 45)", "bench/gpu-check/first.ts", "FIRST_MINUTES = 45"],
    ["a software GPU, 30 minutes a section", "bench/gpu-check/main.ts", "rehearsal: 30"],
    ["590 and newer | 13 | 7.5 (Turing) and newer", "src/engine/device/cuda.ts", "ptx: 75, ptxDriver: 590"],
    ["580 | 13 | 8.6, 8.9 and 12.x", "src/engine/device/cuda.ts", "machineCode: [86, 89, 120, 121]"],
    [
      "550 and newer (525 for 8.6 to 8.9) | 12",
      "src/engine/device/cuda.ts",
      "machineCode: [86], ptx: 50, ptxDriver: 550",
    ],
    ["the others, up to 9.0", "src/engine/device/cuda.ts", "learner: { from: 50, below: 100 }"],
    ["f16 ranges from 6e-8 to 65504", "native/learner/scaling.py", "f16 holds 6e-8 to 65504"],
    ["squares of 128 × 128 scores", "native/learner/flex.py", "SQUARE = 128"],
    ["they equal its path to 1e-5", "native/learner/tests/test_card.py", "< 1e-5"],
    ["inputs of layers of more than 2 MiB", "native/learner/unsloth_backend.py", "of more than 2 MiB"],
    ["tokens/s of 1 to 256 sequences", "bench/gpu-check/speed.ts", "[1, 8, 32, 64, 256]"],
    ["1 to 256 sequences, agents", "bench/results/card-counts-engine-nvidia-h100-80gb-hbm3.json", '"sequences": 256'],
    ["adapters, 200 changes", "test/engine/adapter-swaps.gpu.test.ts", "gpu.software ? 20 : 200"],
    ["(20 on a software GPU)", "test/engine/adapter-swaps.gpu.test.ts", "gpu.software ? 20 : 200"],
    ["within 1e-5 on the CPU", "test/engine/behaviours.ts", "bound = 1e-5"],
    ["and 1e-4 on the GPU", "test/engine/device-sampling.gpu.test.ts", "ROUNDING = 1e-4"],
    ["the tokens of passes of 512", "src/engine/contexts.ts", "UBATCH = 512"],
    ["(32 rows at most)", "src/engine/load.ts", "ROWS_OF_SUBGROUPS_OF_4 = 32"],
    ["hone evaluates at most 32 rows", "src/engine/load.ts", "ROWS_OF_SUBGROUPS_OF_4 = 32"],
    ["up to 65,536", "src/machine/plan/rows.ts", "WIDEST_ROW = 65_536"],
    ["two lanes from 32 sequences on, if the weights have at most 4 GB", "src/engine/contexts.ts", "modelBytes: 4e9"],
    ["15 minutes of one H200 beside 16 cores", "bench/results/cuda-2026-11-26-nvidia-h200.json", '"cores": 16'],
    ["with PyTorch 2.11 in the place of the pinned 2.13", "pyproject.toml", '"torch==2.13.0"'],
    ["driver 580 does not compile", "src/engine/device/cuda.ts", "ptxDriver: 590"],
    ["ptxas 13.1", "bench/results/cuda-2026-11-26-nvidia-h200.json", "ptxas 13.1.115"],
    ["f16, 32 rollouts", "bench/results/cuda-2026-11-26-nvidia-h200.json", "32 rollouts of at most 2 turns"],
  ],
  elsewhere: ["card"],
  plain: [
    "The exit code is 1",
    "CUDA, 13 or 12,",
    "CUDA 12 or 13, loading",
    "One pool for 64 sequences",
    "The pool is kept for 8 sequences",
    "the losses are equal to 1e-7",
  ],
};
