/**
 * Sections of `yarn gpu-check`: the same task (vowels.ts) by hone, by TRL with vLLM in its process, and by Unsloth. Each row has the
 * command that was run; the versions are those of pyproject.toml (TRL 1.14.2 says that it knows vLLM up to 0.30, and runs 0.32).
 */
import { join } from "node:path";
import { z } from "zod";
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelFile } from "../../src/engine/models.js";
import { modelFolder } from "../../src/machine/models/folder.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { vllmIsReady } from "../../src/machine/python/vllm.js";
import { output } from "../llama-tools.js";
import { peakOnCard, usedOnCard } from "./card.js";
import { type CheckContext, gpuOption, learnerGpu, NotCountable, type Section } from "./context.js";
import { inFolder } from "./folder.js";
import { hone, metricsOf } from "./programs.js";
import { shapedModel } from "./shapes.js";
import { has } from "./updates.js";

const sizeOf = ({ small }: CheckContext) =>
  small
    ? { groups: 2, size: 2, maxTokens: 8, context: 640, steps: 2 }
    : { groups: 8, size: 8, maxTokens: 128, context: 640, steps: 4 };

const modelOf = async ({ small, log }: CheckContext) => (await shapedModel(small ? "tiny" : "0.5b", log)).model;

const NO_VLLM = "vLLM is not installed: yarn gpu-check --prepare adds it";
const ON_STAND_IN = "vLLM chooses its kernels by what they compute at its start";

const SIDES = {
  "llama.cpp": [],
  "llama.cpp, own decoder": ["--decoder", "own"],
  vLLM: ["--engine", "vllm"],
} as const;

async function trainBy(check: CheckContext, more: readonly string[]): Promise<object> {
  const { groups, size, maxTokens, context, steps } = sizeOf(check);
  const rollouts = ["--groups-per-step", groups, "--group-size", size, "--max-turns", 1, "--max-tokens", maxTokens];
  const places = ["--concurrency", groups * size, "--context", context, "--gpu", gpuOption(check.gpu)];
  const rest = ["--lora-rank", 16, "--learning-rate", 1e-5, "--validate-n", 0, "--max-mismatch", 100];
  const task = ["--task", join(packageRoot, "bench/gpu-check/vowels.ts"), "--model", await modelOf(check)];
  const args = ["train", ...task, "--run", "check", "--steps", steps, ...rollouts, ...places, ...rest, ...more].map(
    String,
  );
  return inFolder(async (folder) => {
    const before = usedOnCard() ?? 0;
    const { peak } = await peakOnCard(() => hone(folder, ...args));
    const lines = metricsOf(join(folder, ".hone/vowels/models/check"));
    return {
      command: ["yarn", ...args].join(" "),
      peakOfCard: peak === null ? null : peak - before,
      steps: lines.map(({ seconds, tokens, sampled_tokens: sampled, reward }) => ({
        seconds,
        tokens,
        sampled,
        reward,
      })),
    };
  });
}

export const byHone: Section = {
  name: "task-hone",
  about: "one task by hone, by llama.cpp with both decoders and by --engine vllm: seconds of a step's stages, memory",
  async run(check) {
    const rows: object[] = [];
    const problems: string[] = [];
    for (const [side, more] of Object.entries(SIDES)) {
      const vllm = more[0] === "--engine";
      if (vllm && check.standIn) continue;
      try {
        if (vllm && !vllmIsReady(learnerGpu(check) === "cuda")) throw new HoneError(NO_VLLM);
        rows.push({ side, ...(await trainBy(check, more)) });
      } catch (error) {
        problems.push(`${side}: ${messageOf(error)}`);
      }
      check.save({ rows });
    }
    if (problems[0] !== undefined) throw new HoneError(problems[0]);
    if (check.standIn) throw new NotCountable(ON_STAND_IN);
  },
};

const played = z.object({
  steps: z.array(z.object({ seconds: z.number(), tokens: z.number(), sampled: z.number(), reward: z.number() })),
  peakOfTensors: z.number().nullable(),
  versions: z.record(z.string(), z.string()),
});

function byOthers(side: "trl" | "unsloth", about: string): Section {
  const run = (check: CheckContext) =>
    inFolder(async (home) => {
      const { log, standIn, save } = check;
      if (standIn) throw new NotCountable(ON_STAND_IN);
      const cuda = learnerGpu(check) === "cuda";
      const python = await ensurePython({ extras: ["dev"], onProgress: log });
      if (side === "unsloth" && !has(python, "unsloth")) {
        throw new HoneError("Unsloth is not installed: yarn gpu-check --prepare adds it");
      }
      if (cuda && !has(python, "vllm")) throw new HoneError(NO_VLLM);
      const model = modelFile(await modelOf(check));
      const folder = await modelFolder(model, { home, python: undefined }, { log });
      const { groups, size, maxTokens, context, steps } = sizeOf(check);
      const numbers = { groups, size, "max-tokens": maxTokens, context, steps };
      const options = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]);
      const program = join(packageRoot, "bench/gpu-check/same_task.py");
      const args = [program, side, "--model", folder, "--device", cuda ? "cuda" : "cpu", ...options];
      const command = ["python", ...args].join(" ");
      save({ command });
      const before = usedOnCard() ?? 0;
      const { result, peak } = await peakOnCard(() => output(python, args, { cwd: home }));
      const lines = result.text.trim().split("\n");
      const line = lines.findLast((one) => one.startsWith('{"steps"'));
      if (line === undefined) throw new HoneError(`same_task.py ${side} ended with ${result.code}: ${lines.at(-1)}`);
      save({ command, peakOfCard: peak === null ? null : peak - before, ...played.parse(JSON.parse(line)) });
    });
  return { name: `task-${side}`, about, run };
}

export const byTrl = byOthers("trl", "the same task by TRL's GRPOTrainer with vLLM in its process");
export const byUnsloth = byOthers("unsloth", "the same task by Unsloth with its own vLLM");
