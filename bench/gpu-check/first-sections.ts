/** The sections of `yarn gpu-check --first`, in the order of what matters most on a card that hone has never run on. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { decodeThreads } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { checkSame, SAME, type Side, type UpdateReport, update } from "../learner-update.js";
import { buildLlamaTool } from "../llama-tools.js";
import type { CheckContext, Section } from "./context.js";
import { sectionFile } from "./run-section.js";
import { doctor, learnerGpu, parity, steps, updateSize } from "./sections.js";
import { shapedModel } from "./shapes.js";
import { speed } from "./speed.js";

const prepare: Section = {
  name: "prepare",
  about: "a model of random weights in the shape of qwen2.5-0.5b, and llama-batched-bench",
  async run({ small, log, save }) {
    const { model } = await shapedModel(small ? "tiny" : "0.5b", log);
    save({ model });
    save({ model, tool: await buildLlamaTool("llama-batched-bench", log) });
  },
};

const PEFT = "update-peft";

interface UpdateResult {
  readonly update?: UpdateReport;
}

async function updateBy(side: Side[0], python: string, context: CheckContext): Promise<UpdateReport> {
  const device = learnerGpu(context) === false ? "cpu" : "cuda";
  return update(python, [side, "--device", device], updateSize(context), decodeThreads(undefined));
}

const peft: Section = {
  name: PEFT,
  about: "an update of 64 rollouts by the learner with PEFT: seconds, peak, and how its rows are computed",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    context.save({ update: await updateBy("hone", python, context) });
  },
};

const unsloth: Section = {
  name: "update-unsloth",
  about: "the same update with Unsloth, whose loss and gradient norm must be PEFT's",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    if (spawnSync(python, ["-c", "import importlib.util as u; exit(u.find_spec('unsloth') is None)"]).status !== 0) {
      throw new HoneError("Unsloth is not installed: yarn doctor --install --learner unsloth adds it");
    }
    const ours = await updateBy("hone-unsloth", python, context);
    context.save({ update: ours });
    const { update: theirs } = (sectionFile(join(context.folder, `${PEFT}.json`)) ?? {}) as UpdateResult;
    if (theirs === undefined) throw new HoneError(`there is no update by PEFT to compare it with: see ${PEFT}`);
    checkSame(ours, theirs, updateSize(context).shape, learnerGpu(context) === false ? SAME.cpu : SAME.gpu);
  },
};

export interface FirstSection {
  readonly section: Section;
  /** At most; what a section does not take is left to the others. */
  readonly minutes: number;
}

export const firstPlan: readonly FirstSection[] = [
  // The first update on a card compiles the learner's kernels: three ways of computing rows, two of them tried at least.
  { section: doctor, minutes: 7 },
  { section: prepare, minutes: 6 },
  { section: parity, minutes: 3 },
  { section: steps, minutes: 10 },
  { section: speed("0.5b", [1, 8, 64], "speed"), minutes: 6 },
  { section: peft, minutes: 5 },
  { section: unsloth, minutes: 8 },
];

export const firstSections: readonly Section[] = firstPlan.map(({ section }) => section);
