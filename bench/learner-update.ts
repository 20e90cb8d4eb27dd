/** An update of 64 rollouts by different learners, each in its own process (bench/learner/update.py). */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { learnerEnvironment } from "../src/core/learn/environment.js";
import { HoneError } from "../src/core/util/errors.js";
import { packageRoot } from "../src/core/util/paths.js";
import { ggmlBase } from "../src/engine/missing.js";
import { usableCores } from "../src/engine/threads.js";
import { compare, median } from "./measure.js";
import type { BenchContext, Row, Shape } from "./row.js";

const reportSchema = z.object({
  device: z.string(),
  loss: z.number(),
  gradNorm: z.number(),
  tokens: z.number(),
  /** Number of positions that the model computed. */
  computed: z.number(),
  /** Sampled tokens. */
  sampled: z.number(),
  tokensPerSecond: z.number(),
  /** Peak bytes during the update (CPU: resident, of the process; CUDA: of its tensors), without the loaded model. */
  aboveModel: z.number(),
  /** Bytes before the first update. */
  loaded: z.number(),
  /** Seconds of the first update, in which kernels are compiled, and of the fastest. */
  firstSeconds: z.number(),
  seconds: z.number(),
  /** hone's sides: how rows are computed (native/learner/card.py), and what its notes say of it. */
  way: z.string().optional(),
  notes: z.array(z.string()).optional(),
});
export type UpdateReport = z.output<typeof reportSchema>;

export interface Size {
  readonly shape: Shape | "tiny-shared-keys";
  /** Lengths of rollouts with random tokens, or a batch file of the tiny model. */
  readonly rollouts:
    | { readonly prompt: readonly [number, number]; readonly completion: readonly [number, number] }
    | string;
  /** Number of updates in a process; the fastest counts. */
  readonly repeats: number;
}

// On a CPU an update of long rollouts of the larger shape would take up to an hour.
export const sizes: readonly Size[] = [
  { shape: "tiny", rollouts: { prompt: [300, 600], completion: [100, 200] }, repeats: 3 },
  { shape: "smollm2", rollouts: { prompt: [40, 56], completion: [28, 36] }, repeats: 2 },
  { shape: "0.5b", rollouts: { prompt: [40, 56], completion: [28, 36] }, repeats: 1 },
];

export const sizesOf = ({ shape }: BenchContext) => sizes.filter((size) => size.shape === (shape ?? size.shape));

/** Arguments of update.py for one side. */
export type Side = readonly ["hone" | "hone-unsloth" | "trl" | "unsloth", ...string[]];

export interface Comparison {
  /** Name of the bench. */
  readonly name: string;
  readonly ours: Side;
  readonly theirs: Side;
  /** Targets of the rows of speed and memory. */
  readonly targets: { readonly speed: string; readonly memory: string };
}

/** Tolerances for one update computed in two ways: in f32 on a CPU, in bf16 on a GPU (not run on CUDA). */
export const SAME = {
  cpu: { loss: 1e-4, gradNorm: 1e-3, gradient: 0.9999 },
  gpu: { loss: 0.02, gradNorm: 0.05, gradient: 0.99 },
};

/** Three rows: speed, memory, and the cosine of the two gradients. @throws HoneError when the updates were not the same */
export async function compareSides(
  context: BenchContext,
  python: string,
  size: Size,
  { name, ours, theirs, targets }: Comparison,
): Promise<Row[]> {
  const threads = context.threads ?? usableCores();
  const reports: Record<"ours" | "theirs", UpdateReport[]> = { ours: [], theirs: [] };
  const folder = mkdtempSync(join(tmpdir(), "hone-bench-learner-"));
  try {
    const side = (which: "ours" | "theirs", arguments_: Side) => async () => {
      const device = context.gpu === false ? "cpu" : "auto";
      const more = ["--device", device, "--gradients", join(folder, which)];
      const report = await update(python, [...arguments_, ...more], size, threads);
      reports[which].push(report);
      return report.tokensPerSecond;
    };
    const { rollouts } = size;
    const lengths =
      typeof rollouts === "string"
        ? "the rollouts of the tiny model's first step on the email task"
        : `prompts of ${rollouts.prompt.join(" to ")} tokens that 8 rollouts share, own parts of ${rollouts.completion.join(" to ")}`;
    const about = { model: `qwen2 ${size.shape} shape, LoRA rank 8 on all linear layers`, sequences: null };
    const speed = await compare(
      context,
      {
        ...about,
        name: `${name} speed`,
        unit: "tokens/s",
        target: targets.speed,
        note: `${ours.join(" ")} and ${theirs.join(" ")}; ${lengths}; ${threads} threads`,
      },
      "more",
      { ours: side("ours", ours), theirs: side("theirs", theirs) },
    );
    const cosine = cosineOf(gradients(join(folder, "ours")), gradients(join(folder, "theirs")));
    const [a, b] = [reports.ours, reports.theirs];
    const same = a[0]?.device === "cpu" ? SAME.cpu : SAME.gpu;
    checkSame(a[0] as UpdateReport, b[0] as UpdateReport, size.shape, same);
    const bytes = (all: readonly UpdateReport[]) => median(all.map(({ aboveModel }) => aboveModel / 1e6));
    const memory: Row = {
      ...about,
      name: `${name} memory`,
      unit: "MB",
      ours: bytes(a),
      theirs: bytes(b),
      ratio: bytes(b) / bytes(a),
      target: targets.memory,
      note: `peak above the loaded model on ${a[0]?.device}; positions computed: ${a[0]?.computed} and ${b[0]?.computed}`,
      rounds: a.map(({ aboveModel }, i) => ({ ours: aboveModel / 1e6, theirs: (b[i]?.aboveModel ?? 0) / 1e6 })),
    };
    const gradient: Row = {
      ...about,
      name: `${name} gradient`,
      unit: "cosine",
      ours: cosine,
      theirs: null,
      ratio: null,
      target: `cosine >= ${same.gradient}`,
      note: "between the gradients of the first update",
    };
    if (!(cosine >= same.gradient)) throw new HoneError(`${name}: the gradients' cosine is ${cosine}`);
    return [speed, memory, gradient];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function gradients(file: string): Float32Array {
  const bytes = readFileSync(file);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

function cosineOf(ours: Float32Array, theirs: Float32Array): number {
  if (ours.length !== theirs.length) throw new HoneError("the two sides trained adapters of different sizes");
  let [product, a, b] = [0, 0, 0];
  for (const [i, value] of ours.entries()) {
    const other = theirs[i] as number;
    product += value * other;
    a += value * value;
    b += other * other;
  }
  return product / Math.sqrt(a * b);
}

export function checkSame(
  ours: UpdateReport,
  theirs: UpdateReport,
  shape: string,
  same: { loss: number; gradNorm: number },
): void {
  for (const key of ["loss", "gradNorm"] as const) {
    const difference = Math.abs(ours[key] - theirs[key]) / Math.abs(theirs[key]);
    if (difference > same[key]) {
      throw new HoneError(
        `on the ${shape} shape the two sides did different updates: ${key} ${ours[key]} and ${theirs[key]}`,
      );
    }
  }
}

/** One process, one or more updates. @param side and more arguments of update.py */
export function update(python: string, side: readonly string[], size: Size, threads: number): Promise<UpdateReport> {
  const args = ["--shape", size.shape, "--threads", threads, "--repeats", size.repeats];
  const { rollouts } = size;
  if (typeof rollouts === "string") args.push("--batch", rollouts);
  else {
    args.push("--prompt", ...rollouts.prompt);
    args.push("--completion", ...rollouts.completion);
  }
  return new Promise((resolve, reject) => {
    const child = spawn(python, [join(packageRoot, "bench/learner/update.py"), ...side, ...args.map(String)], {
      stdio: ["ignore", "pipe", "pipe"],
      // As hone starts its learner, for both sides.
      env: { ...process.env, ...learnerEnvironment(threads, ggmlBase()) },
    });
    const output = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        output[stream] += text;
      });
    }
    child.once("error", reject);
    child.once("close", (code) => {
      const line = output.stdout.trimEnd().split("\n").at(-1) ?? "";
      if (code === 0) resolve(reportSchema.parse(JSON.parse(line)));
      else {
        const why = output.stderr.trimEnd().split("\n").at(-1);
        reject(new HoneError(`bench/learner/update.py ${side[0]} failed: ${why}`));
      }
    });
  });
}
