/** Installs the chosen build of PyTorch; the other requirements are installed after it. */
import { readFileSync } from "node:fs";
import { HoneError } from "../util/index.js";
import { type Installer, type OnLine, run } from "./installer.js";
import { type Build, buildTitles, files } from "./stamp.js";

/**
 * PyTorch's own indexes. CPU: 200 MB where the general index has only the CUDA build for Linux. CUDA 12: the pinned
 * version has one build, for 12.6. CUDA 13: the general index has it.
 */
const INDEXES: Readonly<Record<Exclude<Build, "cuda13">, string>> = {
  cpu: "https://download.pytorch.org/whl/cpu",
  cuda12: "https://download.pytorch.org/whl/cu126",
};

/** Index of the build; undefined for the general index. */
export const indexOf = (build: Build, given: string | undefined) =>
  given ?? (build === "cuda13" ? undefined : INDEXES[build]);

export interface TorchChoice {
  readonly build: Build;
  readonly interpreter: string;
  /** Replaces the indexes above. */
  readonly index: string | undefined;
  readonly onProgress: OnLine;
  /** What makes the general build load without CUDA; by default what does so in an environment. */
  readonly withoutCuda?: () => Promise<void>;
}

/** @throws HoneError when it cannot be installed */
export async function installTorch(installer: Installer, choice: TorchChoice): Promise<void> {
  const { build, index, onProgress } = choice;
  const torch = readFileSync(files.runtime, "utf8").match(/^torch==\S+$/m)?.[0];
  if (!torch) throw new Error(`${files.runtime} does not pin torch`);
  if (index !== undefined) {
    onProgress(`${installer.verb} ${torch} for ${buildTitles[build]} from ${index}`);
    await installer.install(["--no-deps", "--index-url", index, torch], { onLine: onProgress });
    if (build === "cpu") await withoutCuda(choice);
  } else if (build === "cuda12") {
    onProgress(`${installer.verb} ${torch} for CUDA 12 from ${INDEXES.cuda12}`);
    await installer.install(["--no-deps", "--index-url", INDEXES.cuda12, torch], { onLine: onProgress });
  } else if (build === "cpu" && process.platform === "linux") {
    await installCpuTorch(installer, torch, choice);
  }
}

/**
 * PyTorch without CUDA, from the first source that has it: wheels on this disk that pip is configured to use,
 * PyTorch's index of CPU builds, the general index. The last one gives a CUDA build: see cpu_torch.py.
 */
async function installCpuTorch(installer: Installer, torch: string, choice: TorchChoice): Promise<void> {
  const { onProgress } = choice;
  onProgress(`${installer.verb} ${torch} for the CPU`);
  const places = [["--no-index"], ["--index-url", INDEXES.cpu]];
  for (const place of places) {
    // A failure of the first sources is not reported: the next source is tried.
    if (await installer.tries(["--no-deps", ...place, torch], { onLine: onProgress })) return;
  }
  onProgress("PyTorch's index cannot be reached; taking PyPI's build instead (0.5 GB), which computes on the CPU too");
  await installer.install(["--no-deps", torch], { onLine: onProgress });
  await withoutCuda(choice);
}

/** Does nothing to a CPU build. */
async function withoutCuda({ interpreter, withoutCuda }: TorchChoice): Promise<void> {
  if (process.platform !== "linux") return;
  if (withoutCuda) return withoutCuda();
  const adapted = await run(interpreter, [files.cpuTorch]);
  if (adapted.code === 0) return;
  const why = adapted.stderr.trim().split("\n").at(-1) ?? "";
  throw new HoneError(`PyTorch could not be set up for the CPU: ${why}`);
}
