/** What one H200 measured, and limits that the code declares, as docs/gpu.md has them. */
import { fetchedLibraries } from "../../../src/engine/libraries.js";
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

const whole = (value: number) => Math.round(value).toLocaleString("en-US");
const tenths = (value: number) => value.toFixed(1);
const range = (values: readonly number[], digits: number) =>
  `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
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
  const theirs = traffic === "decode" ? h200.llamaBatchedBench.tokensPerSecond[sequences] : undefined;
  return [
    `${traffic} ${sequences}`,
    whole(withoutAdapter[1] as number),
    theirs === undefined ? "–" : whole(theirs),
    whole(withAdapter[1] as number),
  ];
}
const [firstStep, ...laterSteps] = h200.steps.steps;
const lane = h200.lanes.seconds;
const oneLane = Object.entries<number>(lane).filter(([name]) => /^one lane($|, beside|, after)/.test(name));
const { hone, unsloth, gradNorm, profile } = h200.updates;

export const gpu: Source = {
  page: "docs/gpu.md",
  tables: [{ header: "H200, 0.5B, bf16", rows: h200.engine.rows.map(timedCells) }],
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
    `within ${Math.ceil(10 * h200.kill.seconds_to_end) / 10} s.`,
    "An update of 64 rollouts in bf16",
    `took hone with PEFT ${range([hone.seconds, ...hone.later], 2)} s, of which the card worked ${(profile.cardMilliseconds / 1000).toFixed(2)}`,
    `share no prompts, ${unsloth.seconds.toFixed(2)} s`,
    `the gradient norms to ${(100 * Math.abs(gradNorm[0] / gradNorm[1] - 1)).toFixed(1)} %`,
    `${megabytes("vulkan")} MB for Vulkan, ${megabytes("cuda")} for CUDA 13, ${megabytes("cuda") + megabytes("cuda-ext")} for CUDA 12`,
  ],
  declared: [
    ["every sequence samples 64 tokens", "bench/card/traffic.ts", "TOKENS = 64;"],
    ["after a prompt of 200", "bench/card/traffic.ts", "PROMPT = 200;"],
    ["groups of 8 with prompts of 600", "bench/card/traffic.ts", "groups of 8 with prompts of 600"],
    ["three turns of 20 to 80 tokens", "bench/card/traffic.ts", "sampled: next(20, 80)"],
    ["results of 50 to 250", "bench/card/traffic.ts", "next(50, 250)"],
    ["`` (60) is of one call", "bench/gpu-check/plan.ts", "MINUTES = 60;"],
    ["590 and newer | 13 | 7.5 (Turing) and newer", "src/engine/device/cuda.ts", "ptx: 75, ptxDriver: 590"],
    ["580 | 13 | 8.6, 8.9 and 12.x", "src/engine/device/cuda.ts", "machineCode: [86, 89, 120, 121]"],
    [
      "550 and newer (525 for 8.6 to 8.9) | 12",
      "src/engine/device/cuda.ts",
      "machineCode: [86], ptx: 50, ptxDriver: 550",
    ],
    ["the others, up to 9.0", "src/engine/device/cuda.ts", "learner: { from: 50, below: 100 }"],
    ["up to 65,536", "src/machine/plan/fit.ts", "WIDEST_ROW = 65_536"],
    ["models above 100 million weights", "native/learner/cpu_bf16.py", "LEAST_WEIGHTS = 100_000_000"],
    ["two lanes from 32 sequences on, if the weights have at most 4 GB", "src/engine/contexts.ts", "modelBytes: 4e9"],
    ["an H200 beside 16 cores, for 15 minutes", "bench/results/cuda-2026-11-26-nvidia-h200.json", '"cores": 16'],
    ["with PyTorch 2.11 in the place of the pinned 2.13", "pyproject.toml", '"torch==2.13.0"'],
    ["f16, 32 rollouts", "bench/results/cuda-2026-11-26-nvidia-h200.json", "32 rollouts of at most 2 turns"],
  ],
  elsewhere: ["card"],
  plain: ["(the exit code is 1 then)", "The losses are equal to 1e-7"],
};
