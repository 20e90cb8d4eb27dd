/** Installs Unsloth into hone's own environment: an extra of some 600 MB on disk, 700 for a GPU. */
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../util/index.js";
import { type Installer, type OnLine, run } from "./installer.js";
import { type Build, buildTitles, files } from "./stamp.js";
import { indexOf } from "./torch.js";

export interface UnslothChoice {
  /** The environment. */
  readonly folder: string;
  readonly build: Build;
  readonly interpreter: string;
  readonly torchIndex: string | undefined;
  /** The installer has the packages at hand and asks no index. */
  readonly packed: boolean;
  readonly onProgress: OnLine;
}

/** @throws HoneError when it cannot be installed, or cannot be imported afterwards */
export async function installUnsloth(installer: Installer, choice: UnslothChoice): Promise<void> {
  const { folder, build, interpreter, onProgress } = choice;
  const started = performance.now();
  const before = bytesIn(folder);
  onProgress(`installing Unsloth for ${buildTitles[build]}`);
  await unslothPackages(installer, choice);
  await checkImport(interpreter, build);
  const seconds = (performance.now() - started) / 1000;
  onProgress(`Unsloth: ${((bytesIn(folder) - before) / 1e6).toFixed(0)} MB in ${seconds.toFixed(0)} s`);
}

/** Installs or downloads its packages and those that it asks for. */
export async function unslothPackages(
  installer: Installer,
  { build, torchIndex, packed, onProgress }: Omit<UnslothChoice, "folder" | "interpreter">,
): Promise<void> {
  const install = (args: readonly string[]) => installer.install(args, { onLine: onProgress });
  if (build === "cpu") await install(["-r", files.unsloth]);
  else {
    // A build for another CUDA version than PyTorch's would not load.
    const index = packed ? undefined : indexOf(build, torchIndex);
    if (index !== undefined) await install(["--no-deps", "--index-url", index, pinOf("torchvision")]);
    await install(["-r", files.unslothCuda]);
  }
  await install(["--no-deps", ...unslothWheels()]);
}

/** "unsloth==2026.10.9", ... */
export function unslothWheels(): string[] {
  return readFileSync(files.unslothWheels, "utf8").match(/^[\w-]+==\S+$/gm) ?? [];
}

function pinOf(name: string): string {
  const pin = readFileSync(files.unslothCuda, "utf8").match(new RegExp(`^${name}==\\S+$`, "m"))?.[0];
  if (!pin) throw new Error(`${files.unslothCuda} does not pin ${name}`);
  return pin;
}

async function checkImport(interpreter: string, build: Build): Promise<void> {
  const choice = build === "cpu" ? { UNSLOTH_FORCE_CPU: "1" } : { UNSLOTH_DISABLE_CPU_FALLBACK: "1" };
  const env = { ...choice, UNSLOTH_DISABLE_STATISTICS: "1", HF_HUB_OFFLINE: "1" };
  const { code, stderr } = await run(interpreter, ["-c", "import unsloth"], { env });
  if (code === 0) return;
  const why = stderr.trim().split("\n").at(-1) ?? "";
  throw new HoneError(`Unsloth was installed but cannot be imported: ${why}; --learner peft does without it`);
}

/** Of files and folders; a file with several hard links counts once for each. */
function bytesIn(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    bytes += entry.isDirectory() ? bytesIn(path) : lstatSync(path).size;
  }
  return bytes;
}
