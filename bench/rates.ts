/** What this CPU reaches: reading of main memory, and products in f32, by PyTorch with the same threads. */
import { spawnSync } from "node:child_process";
import { HoneError } from "../src/util/errors.js";

const timed = (work: string, per: string) => `import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
${work}
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    run()
    best = min(best, time.perf_counter() - start)
print(${per} / best)`;

/** The sum of 1 GB of floats. */
const READ = timed("floats = torch.ones(250_000_000)\nrun = floats.sum", "floats.nbytes");
/** Of two square matrices of this size. */
const SIZE = 2048;
const PRODUCT = timed(
  `a, b = torch.randn(${SIZE}, ${SIZE}), torch.randn(${SIZE}, ${SIZE})\nrun = lambda: a @ b`,
  `2 * ${SIZE}**3`,
);

function rate(python: string, program: string, threads: number): number {
  const { status, stdout, stderr } = spawnSync(python, ["-c", program, `${threads}`], { encoding: "utf8" });
  if (status !== 0) throw new HoneError(`the CPU could not be measured: ${stderr.trim().split("\n").at(-1)}`);
  return Number(stdout);
}

/** Bytes a second, the best of five. */
export const readRate = (python: string, threads: number) => rate(python, READ, threads);

/** Floating point operations a second, the best of five. */
export const productRate = (python: string, threads: number) => rate(python, PRODUCT, threads);
