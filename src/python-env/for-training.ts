/** The Python environment for a training's options; the same for `train`, `sft` and programs. */
import type { Config } from "../config/index.js";
import type { PythonOptions } from "./python.js";

export type LearnerChoice = Pick<Config, "python" | "torchIndex" | "learner" | "adamBits">;

/** @param cuda whether the learner computes on an NVIDIA GPU */
export function pythonFor(
  { python, torchIndex, learner, adamBits }: LearnerChoice,
  cuda: boolean,
  onProgress: (text: string) => void,
): PythonOptions {
  return {
    onProgress,
    cpu: !cuda,
    torchIndex,
    // 8-bit Adam is bitsandbytes', which comes with it.
    unsloth: learner === "unsloth" || adamBits === "8",
    ...(python === undefined ? {} : { python }),
  };
}
