/** Sections of `yarn gpu-check`: an update by PEFT, the same by Unsloth, and by PEFT with other attention. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { decodeThreads } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { checkSame, SAME, type Side, type Size, type UpdateReport, update } from "../learner-update.js";
import { type CheckContext, learnerGpu, NotCountable, type Section } from "./context.js";
import { inFolder } from "./folder.js";

function updateSize({ small }: CheckContext): Size {
  return small
    ? { shape: "tiny", rollouts: { prompt: [20, 30], completion: [8, 12] }, repeats: 1 }
    : { shape: "0.5b", rollouts: { prompt: [300, 600], completion: [100, 200] }, repeats: 3 };
}

async function updateBy(side: Side, python: string, context: CheckContext): Promise<UpdateReport> {
  const device = learnerGpu(context) === false ? "cpu" : "cuda";
  return update(python, [...side, "--device", device], updateSize(context), decodeThreads(undefined));
}

const same = (ours: UpdateReport, theirs: UpdateReport, context: CheckContext) =>
  checkSame(ours, theirs, updateSize(context).shape, learnerGpu(context) === false ? SAME.cpu : SAME.gpu);

/** Whether an interpreter has a package. */
export const has = (python: string, name: string) =>
  spawnSync(python, ["-c", `import importlib.util as u; exit(u.find_spec('${name}') is None)`]).status === 0;

export const peft: Section = {
  name: "update-peft",
  about: "an update of 64 rollouts by the learner with PEFT: seconds, peak, and how its rows are computed",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    context.save({ update: await updateBy(["hone"], python, context) });
  },
};

export const unsloth: Section = {
  name: "update-unsloth",
  about: "the same update with Unsloth, whose loss and gradient norm must be PEFT's",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    if (!has(python, "unsloth")) {
      throw new HoneError("Unsloth is not installed: yarn doctor --install --learner unsloth adds it");
    }
    const ours = await updateBy(["hone-unsloth"], python, context);
    context.save({ update: ours });
    const { update: theirs } = (context.earlier(peft.name) ?? {}) as { readonly update?: UpdateReport };
    if (theirs === undefined) throw new HoneError(`there is no update by PEFT to compare it with: see ${peft.name}`);
    if (context.standIn) throw new NotCountable("it computes no losses that could be compared");
    same(ours, theirs, context);
  },
};

/** One process: how FlexAttention has the keys of query heads that share them (native/learner/card.py). */
export interface HeadsRow {
  readonly keys: "shared" | "for each head";
  /** Whether an earlier one has compiled the same. */
  readonly kept: boolean;
  readonly update: UpdateReport;
}

export const heads: Section = {
  name: "update-heads",
  about: "PEFT's update with keys shared by query heads and with keys for each, by turns, compiled anew and kept",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    await inFolder(async (folder) => {
      // As on a machine on which hone has not run.
      process.env.TORCHINDUCTOR_CACHE_DIR = join(folder, "kernels");
      const rows: HeadsRow[] = [];
      for (const kept of [false, true]) {
        for (const keys of ["shared", "for each head"] as const) {
          const side: Side = keys === "shared" ? ["hone"] : ["hone", "--expanded"];
          rows.push({ keys, kept, update: await updateBy(side, python, context) });
          context.save({ rows });
          const [first] = rows;
          if (first && !context.standIn) same(first.update, rows.at(-1)?.update ?? first.update, context);
        }
      }
    });
  },
};
