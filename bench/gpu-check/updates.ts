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

async function updateBy(
  side: Side,
  python: string,
  context: CheckContext,
  size = updateSize(context),
): Promise<UpdateReport> {
  const device = learnerGpu(context) === false ? "cpu" : "cuda";
  return update(python, [...side, "--device", device], size, decodeThreads(undefined));
}

/** @throws NotCountable on a stand-in */
function checkLosses(ours: UpdateReport, theirs: UpdateReport, { shape }: Size, context: CheckContext): void {
  if (context.standIn) throw new NotCountable("it computes no losses that could be compared");
  checkSame(ours, theirs, shape, learnerGpu(context) === false ? SAME.cpu : SAME.gpu);
}

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
    checkLosses(ours, theirs, updateSize(context), context);
  },
};

/** One process: how FlexAttention has the keys of query heads that share them (native/learner/card.py). */
export interface HeadsRow {
  readonly keys: "shared" | "for each head";
  /** Whether an earlier one has compiled the same. */
  readonly kept: boolean;
  readonly update: UpdateReport;
}

const KEYS: Readonly<Record<HeadsRow["keys"], Side>> = { shared: ["hone"], "for each head": ["hone", "--expanded"] };

export const heads: Section = {
  name: "update-heads",
  about: "PEFT's update with keys shared by query heads and with keys for each, by turns, compiled anew and kept",
  async run(context) {
    const python = await ensurePython({ onProgress: context.log });
    const usual = updateSize(context);
    const size: Size = usual.shape === "tiny" ? { ...usual, shape: "tiny-shared-keys" } : usual;
    await inFolder(async (folder) => {
      const rows: HeadsRow[] = [];
      for (const kept of [false, true]) {
        for (const keys of ["shared", "for each head"] as const) {
          // As on a machine on which hone has not run; the other's kernels are not this one's to load.
          process.env.TORCHINDUCTOR_CACHE_DIR = join(folder, keys);
          rows.push({ keys, kept, update: await updateBy(KEYS[keys], python, context, size) });
          context.save({ rows });
        }
      }
      const [first, ...others] = rows.map(({ update }) => update);
      for (const other of others) checkLosses(other, first as UpdateReport, size, context);
    });
  },
};
