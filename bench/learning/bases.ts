/** The base models of `yarn learning`. */
import { relative } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { PretrainedName } from "../pretrained.js";
import { type QuantisedType, quantisedFile, quantisedTypes } from "./quantised.js";

/** Options of `yarn train`, with their values. */
export type Settings = Readonly<Record<string, string>>;

/** Questions that a run is evaluated on, and how. */
export const evaluationNames = ["held-out", "greedy", "unseen-names", "unseen-names-greedy"] as const;
export type EvaluationName = (typeof evaluationNames)[number];

/** Seeds of each kind of experiment. */
export interface Seeds {
  /** Runs with the task's reward. */
  readonly seeds: readonly number[];
  /** Runs with random rewards: each is a random walk from the base, so a single one says little. */
  readonly coins: readonly number[];
  /** Runs with success alone as the reward: an ablation of partial credit. */
  readonly success: readonly number[];
}

/** Supervised learning before the runs, from rollouts of the task's scripted expert on training scenarios. */
export interface Imitation {
  readonly rollouts: number;
  /** Settings of `yarn hone sft`, in addition to the model and its weights. */
  readonly settings: Settings;
}

export interface Base {
  readonly name: string;
  /** Value of `--model`; a path is relative to the package's folder. */
  readonly model: string;
  /** The file of `model` is made from SmolLM2 when it is first needed: its weights as this type of llama.cpp's. */
  readonly quantised?: QuantisedType;
  /** What is played is this file, whose parts are fetched when it is first needed; `model` is the Hub's name for it. */
  readonly pretrained?: PretrainedName;
  /** Runs start from an adapter that imitates the task's expert. */
  readonly imitation?: Imitation;
  /** Value of `--task`, a path relative to the package's folder; without it, the email task. */
  readonly task?: string;
  /** A value of `--set`, an option of the task, for all that plays it. */
  readonly set?: string;
  /** Settings of every run and control, in addition to the model. */
  readonly settings: Settings;
  readonly evaluations: readonly EvaluationName[];
  /** Unless others are asked for. */
  readonly seeds: Seeds;
  /** The evaluated checkpoint of a run, in addition to the base; of a control it is always the latest. */
  readonly checkpoint: "best" | "latest";
  /** Suffix of the results file and of the drawing for the docs. */
  readonly results: string;
  /** Whether the docs show its curves. */
  readonly drawn: boolean;
}

const whatKind: Settings = { "--max-tokens": "12", "--steps": "16", "--learning-rate": "5e-4" };

/** Of every command that plays or trains SmolLM2 on the email task: its chat template has no tools. */
const hermes: Settings = { "--weights": "f16", "--tool-format": "hermes" };

/**
 * The engine and the learner compute with what the quantised file says, in the 16 bits that a CPU with AVX512-BF16 multiplies (an
 * engine in f16 wrote 0.76 times the tokens of one in bf16 there). Qwen2.5-Coder was not taught the tokens that
 * frame calls in its template: after imitation it wrote whole calls between tokens drawn at random, and no adapter raises one of them
 * above the others. So its calls are JSON alone.
 */
const qwen: Settings = { "--weights": "bf16", "--tool-format": "json" };

/** SmolLM2 and the task in plain text, its weights as they are in the file. */
const smollm2 = (name: string): Base => ({
  name,
  model: "smollm2-135m-q4_1",
  task: "examples/what-kind.ts",
  settings: whatKind,
  evaluations: ["held-out"],
  seeds: { seeds: [1, 2, 3], coins: [], success: [] },
  checkpoint: "latest",
  results: name,
  drawn: false,
});

const imitating: Settings = { "--update-trajectories": "8", "--max-grad-norm": "1" };

/** The email task from an adapter that imitates its expert. */
const imitatedEmail = (own: Settings, steps: string, learningRate: string): Settings => ({
  ...own,
  "--context": "2048",
  "--max-tokens": "128",
  "--groups-per-step": "4",
  "--steps": steps,
  "--learning-rate": learningRate,
  "--max-grad-norm": "1",
  "--validate-every": "0",
  "--validate-n": "20",
});

/** As `yarn start` trains it. */
const tiny: Settings = { "--on-tool-error": "stop" };

const bases: readonly Base[] = [
  {
    name: "tiny",
    model: "tiny",
    settings: tiny,
    evaluations: evaluationNames,
    seeds: { seeds: [1, 2, 3, 4, 5], coins: [1, 2, 3, 4, 5], success: [1, 2, 3, 4, 5] },
    // The experiment asks whether a run keeps its success to the end.
    checkpoint: "latest",
    results: "tiny",
    drawn: true,
  },
  {
    ...smollm2("smollm2"),
    drawn: true,
    settings: { "--weights": "f16", ...whatKind },
    seeds: { seeds: [1, 2, 3], coins: [1, 2, 3], success: [] },
  },
  {
    name: "smollm2-email",
    model: "smollm2-135m-q4_1",
    imitation: {
      rollouts: 160,
      settings: { ...hermes, "--learning-rate": "5e-4", ...imitating },
    },
    settings: imitatedEmail(hermes, "12", "5e-4"),
    evaluations: ["held-out"],
    seeds: { seeds: [1], coins: [1], success: [] },
    checkpoint: "latest",
    results: "smollm2-email",
    drawn: false,
  },
  // The mission's model by its sibling. Settings were searched: after 160 imitated rollouts 17 of 20 validation questions were
  // solved, which leaves reinforcement little to teach; after 24, 5 of 32 rollouts of training questions, and neither 4 steps at
  // 2e-4 nor 9 at 5e-4, which broke the form of calls, raised that.
  {
    name: "qwen2.5-email",
    model: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:q4_k_m",
    pretrained: "qwen2.5-coder-0.5b",
    // What varies stands behind the tools, so that questions share most of their prompts: half the work on a CPU.
    set: "inbox=question",
    imitation: {
      rollouts: 64,
      settings: { ...qwen, "--learning-rate": "2e-4", ...imitating },
    },
    settings: { ...imitatedEmail(qwen, "24", "1e-4"), "--max-turns": "6", "--validate-n": "0" },
    evaluations: ["held-out"],
    seeds: { seeds: [1], coins: [1], success: [] },
    checkpoint: "latest",
    results: "qwen2.5-email",
    drawn: false,
  },
  smollm2("smollm2-q4_1"),
  { ...smollm2("smollm2-vllm"), settings: { "--weights": "f16", "--engine": "vllm", ...whatKind } },
  // Beside `tiny`, whose settings it has: one step is played ahead, on half of the cores.
  {
    name: "tiny-ahead",
    model: "tiny",
    settings: { ...tiny, "--staleness": "1" },
    evaluations: ["held-out"],
    seeds: { seeds: [1, 2, 3], coins: [], success: [] },
    checkpoint: "latest",
    results: "tiny-ahead",
    drawn: false,
  },
  ...quantisedTypes.map((type) => ({
    ...smollm2(`smollm2-${type}`),
    model: relative(packageRoot, quantisedFile(type)),
    quantised: type,
  })),
];

/** @throws HoneError for an unknown name */
export function baseOf(name: string): Base {
  const base = bases.find((each) => each.name === name);
  if (!base)
    throw new HoneError(`--base: there is no base ${name}; there are ${bases.map((one) => one.name).join(", ")}`);
  return base;
}
