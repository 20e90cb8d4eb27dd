/** Installs packages of requirements.lock with uv or pip: which, from where, and what a failure means in one line. */
import { writeFileSync } from "node:fs";
import { HoneError } from "../../core/util/errors.js";
import { type OnLine, run } from "../../core/util/run.js";
import { type Build, buildTitles } from "../../engine/device/environment.js";
import { declaredIndex, type Locked, locked } from "./declared.js";
import { whyNotFetched } from "./failure.js";

/** Beside the learner's packages: those of tests, of `--learner unsloth`, of `--track`, of the engine vLLM. */
export type Extra = "dev" | "unsloth" | "trackers" | "vllm";

/** Packages that are compiled against one build of PyTorch: its indexes have them all. */
const OF_TORCH = ["torch", "torchvision", "torchaudio"];
/** Lines of pip and uv that are passed on: large downloads, and the end. */
const WORTH_SAYING = /^Downloading .*\(\d+(\.\d+)? (MB|GB)\)|^(Installing collected|Prepared|Installed) /;
/** For what may fail: without a long wait for a network that is not there. */
const HURRY = { PIP_RETRIES: "0", PIP_DEFAULT_TIMEOUT: "15", UV_HTTP_RETRIES: "0", UV_HTTP_TIMEOUT: "15" };
/** Other places for packages than the environment, which users, and images such as Gitpod's, set for pip. */
const NOWHERE_ELSE = { PIP_USER: "0", PIP_TARGET: undefined, PIP_PREFIX: undefined };
export const PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"] as const;

/** How packages are installed. */
export interface Caller {
  /** uv or pip, up to the arguments that `pip install` and `uv pip install` have in common; or `pip download`. */
  readonly command: readonly [program: string, ...args: string[]];
  /** Where the list of packages is written. */
  readonly list: string;
  /** A folder that has all packages, PyTorch of this build among them: no index is asked. */
  readonly wheels?: string | undefined;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

export interface Installing extends Caller {
  readonly build: Build;
  /** "base" are the learner's own packages. */
  readonly extras: readonly (Extra | "base")[];
  /** Package index for PyTorch in place of hone's choice. */
  readonly torchIndex?: string | undefined;
}

/** Installs the packages of these extras, each file with the hash that is locked. @throws HoneError when one cannot be had */
export async function installPackages(choice: Installing): Promise<void> {
  const { build, extras, onProgress } = choice;
  const packages = locked(extras.map((extra) => (extra === "unsloth" && build === "cpu" ? "unsloth-cpu" : extra)));
  const ofTorch = packages.filter(({ name }) => OF_TORCH.includes(name));
  const pins = ofTorch.map(({ name, version }) => `${name}==${version}`);
  const elsewhere = pins.length > 0 && (await torchFromElsewhere(choice, pins));
  const rest = elsewhere
    ? packages.filter((one) => !ofTorch.includes(one))
    : [...packages, ...(extras.includes("base") ? locked([build]) : [])];
  onProgress(`getting ${extras.includes("base") ? "what the learner needs" : extras.join(" and ")}`);
  await installLocked(choice, rest);
  // What another build of PyTorch needs of NVIDIA's is not locked: it says so itself.
  if (elsewhere && build !== "cpu") await install(choice, pins);
}

/** Installs exactly these packages, each file with its hash. @throws HoneError when one cannot be had */
export async function installLocked(choice: Caller, packages: readonly Locked[]): Promise<void> {
  writeFileSync(choice.list, `${packages.map(({ text }) => text).join("\n")}\n`);
  await install(choice, ["--no-deps", "--require-hashes", "-r", choice.list]);
}

/** Gets PyTorch from a place whose files are not locked. False where the general index has the right build. */
async function torchFromElsewhere(choice: Installing, pins: readonly string[]): Promise<boolean> {
  const { build, torchIndex, wheels, onProgress } = choice;
  const torch = ["--no-deps", ...pins];
  if (wheels !== undefined) return await install(choice, torch);
  const index = torchIndex ?? (build === "cpu" && process.platform !== "linux" ? undefined : declaredIndex(build));
  if (index === undefined) return false;
  const from = ["--index-url", index, ...torch];
  onProgress(`getting ${pins.join(" and ")} for ${buildTitles[build]} from ${index}`);
  if (torchIndex !== undefined || build !== "cpu") return await install(choice, from);
  // Wheels on this disk that pip is configured to use, then PyTorch's index of builds for the CPU (200 MB). The general index
  // has only the build for CUDA, which computes on the CPU too.
  if (await install(choice, ["--no-index", ...torch], HURRY)) return true;
  if (await install(choice, from, HURRY)) return true;
  onProgress("PyTorch's index cannot be reached; taking PyPI's build instead (0.5 GB), which computes on the CPU too");
  return false;
}

/** @param hurry environment of a call that may fail: it then returns false */
async function install(choice: Caller, args: readonly string[], hurry?: NodeJS.ProcessEnv): Promise<boolean> {
  const { command, wheels, onProgress, signal } = choice;
  const [program, ...before] = command;
  const from = wheels === undefined ? [] : ["--no-index", "--find-links", wheels];
  const onLine = (line: string) => {
    if (WORTH_SAYING.test(line)) onProgress(line.length > 100 ? `${line.slice(0, 97)}...` : line);
  };
  const env = { ...NOWHERE_ELSE, ...hurry };
  const { code, stdout, stderr } = await run(program, [...before, ...from, ...args], { env, onLine, signal });
  signal?.throwIfAborted();
  if (code === 0 || hurry) return code === 0;
  const output = `${stderr}\n${stdout}`;
  const lacking = wheels && /No matching distribution found for (\S+)/.exec(output)?.[1];
  throw new HoneError(
    lacking
      ? `${wheels}, with which hone was unpacked, has no ${lacking}; pack hone again, with --learner unsloth where Unsloth is wanted`
      : `${whyNotFetched("Python packages", output)}; or give --python a Python that has hone's packages`,
  );
}
