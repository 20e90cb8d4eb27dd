/** Which packages a machine needs, and from where: the build of PyTorch is the question. */
import { join } from "node:path";
import { type Build, buildTitles } from "../device/index.js";
import { HoneError, lastLine, type OnLine, packageRoot, run } from "../util/index.js";
import { declaredIndex, locked } from "./declared.js";
import type { Installer } from "./pip.js";

/** Beside the learner's packages: those of tests, of `--learner unsloth`, of `--track`, of the engine vLLM. */
export type Extra = "dev" | "unsloth" | "trackers" | "vllm";

/** Packages that are compiled against one build of PyTorch: its indexes have them all. */
const OF_TORCH = ["torch", "torchvision", "torchaudio"];

export interface Wanted {
  readonly build: Build;
  /** "base" are the learner's own packages. */
  readonly extras: readonly (Extra | "base")[];
  /** Package index for PyTorch in place of hone's choice. */
  readonly torchIndex: string | undefined;
  /** The installer has the packages at hand, PyTorch of this build among them, and asks no index. */
  readonly packed: boolean;
  readonly onProgress: OnLine;
  /** Makes PyTorch's general build load without CUDA; it does nothing to a build for the CPU. */
  readonly withoutCuda: () => Promise<void>;
}

/** @throws HoneError when one cannot be had */
export async function installPackages(installer: Installer, wanted: Wanted): Promise<void> {
  const { build, extras, packed, onProgress } = wanted;
  const packages = locked(extras.map((extra) => (extra === "unsloth" && build === "cpu" ? "unsloth-cpu" : extra)));
  const ofTorch = packages.filter(({ name }) => OF_TORCH.includes(name));
  const pins = ofTorch.map(({ name, version }) => `${name}==${version}`);
  const elsewhere = pins.length > 0 && (await fromElsewhere(installer, pins, wanted));
  onProgress(`${installer.verb} ${extras.includes("base") ? "what the learner needs" : extras.join(" and ")}`);
  if (elsewhere) await installer.locked(packages.filter((one) => !ofTorch.includes(one)));
  else await installer.locked([...packages, ...(extras.includes("base") ? locked([build]) : [])]);
  // What another build of PyTorch needs of NVIDIA's is not locked: it says so itself.
  if (elsewhere && build !== "cpu") await installer.install(pins);
  if (build === "cpu" && process.platform === "linux" && !packed) await wanted.withoutCuda();
}

/** Installs PyTorch from a place whose files are not locked. False where the general index has the right build. */
async function fromElsewhere(
  installer: Installer,
  pins: readonly string[],
  { build, torchIndex, packed, onProgress }: Wanted,
): Promise<boolean> {
  const index = torchIndex ?? declaredIndex(build);
  const sources = { from: index === undefined ? [] : ["--index-url", index], pins: ["--no-deps", ...pins] };
  const say = `${installer.verb} ${pins.join(" and ")} for ${buildTitles[build]}`;
  if (packed) {
    await installer.install(sources.pins);
    return true;
  }
  if (torchIndex !== undefined || build === "cuda12") {
    onProgress(`${say} from ${index}`);
    await installer.install([...sources.from, ...sources.pins]);
    return true;
  }
  if (build !== "cpu" || process.platform !== "linux") return false;
  onProgress(say);
  // Wheels on this disk that pip is configured to use, then PyTorch's index of builds for the CPU (200 MB). The general index
  // has only the build for CUDA, which computes on the CPU too.
  if (await installer.tries(["--no-index", ...sources.pins])) return true;
  if (await installer.tries([...sources.from, ...sources.pins])) return true;
  onProgress("PyTorch's index cannot be reached; taking PyPI's build instead (0.5 GB), which computes on the CPU too");
  return false;
}

/** Runs a program of native/learner that makes PyTorch load without CUDA. */
export async function withoutCuda(interpreter: string, module: "cpu_torch" | "cpu_wheel", ...args: string[]) {
  const env = { PYTHONPATH: join(packageRoot, "native") };
  const adapted = await run(interpreter, ["-m", `learner.${module}`, ...args], { env });
  if (adapted.code === 0) return;
  throw new HoneError(`PyTorch could not be set up for the CPU: ${lastLine(adapted.stderr)}`);
}
