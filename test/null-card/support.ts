/** Machines with null cards (test/null-card/native): each test has one of its own, and reads what was counted there. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { modelFolder } from "../../bench/models.js";
import { cacheHome, packageRoot as root } from "../../src/core/util/paths.js";
import { lockFile } from "../../src/engine/device/environment.js";
import profiles from "./cards.json" with { type: "json" };

export { root };

/** What is fetched for it: PyTorch for CUDA by the lock file, the engine's libraries by node-llama-cpp. */
function fetchedHash(): string {
  const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const digest = createHash("sha256").update(readFileSync(lockFile())).update(dependencies["node-llama-cpp"]);
  return digest.digest("hex").slice(0, 12);
}

/** Where build.mjs builds it. */
export const built = join(cacheHome(), "hone", `null-card-${fetchedHash()}`);

export type Profile = keyof typeof profiles;
export const cardNames = Object.keys(profiles) as Profile[];
export const nameOf = (profile: Profile) => profiles[profile].name;

/** Of a process: bytes it held of the cards at its last report, and how often things happened. */
export interface Counted {
  readonly pid: number;
  readonly cmd: string;
  /** Of the cards, the driver's own for each process (`context`) included. */
  readonly live: number;
  readonly peak: number;
  readonly context: number;
  readonly pinned: number;
  readonly [what: string]: number | string;
}

export interface MachineOptions {
  /** As nvidia-smi gives it, and as cuDriverGetVersion does. */
  readonly driver?: string;
  readonly cuda?: number;
  readonly env?: NodeJS.ProcessEnv;
}

export const uuidOf = (index: number) => `GPU-${`0${index + 1}`.repeat(4)}-0000-0000-0000-00000000000${index + 1}`;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Machine {
  readonly folder = mkdtempSync(join(tmpdir(), "null-card-"));
  readonly env: NodeJS.ProcessEnv;
  readonly #state = join(this.folder, "memory");

  constructor(cards: readonly Profile[], { driver = "590.44.01", cuda = 13010, env = {} }: MachineOptions = {}) {
    const described = cards.map((profile, index) =>
      Object.entries({ ...profiles[profile], uuid: uuidOf(index) }).map(([key, value]) => `${key}=${value}`),
    );
    const rows = cards.map((profile, index) => {
      const { name, memory, capability } = profiles[profile];
      const mebibytes = Math.round(memory / 2 ** 20);
      return [index, uuidOf(index), name, driver, mebibytes, (capability / 10).toFixed(1)].join(", ");
    });
    this.env = {
      ...process.env,
      PATH: `${join(built, "bin")}:${process.env.PATH}`,
      LD_LIBRARY_PATH: join(built, "driver"),
      TRITON_LIBCUDA_PATH: join(built, "driver"),
      XDG_CACHE_HOME: join(built, "cache"),
      TEST_MODELS_FOLDER: modelFolder,
      // One process compiles, and one thread computes: threads that wait for each other take several times as long where another
      // test has the cores.
      TORCHINDUCTOR_COMPILE_THREADS: "1",
      OMP_NUM_THREADS: "1",
      // Beside those of hone's own processes: what was compiled of the same operations is not compiled again.
      TORCHINDUCTOR_CACHE_DIR: join(built, "cache/hone/kernels"),
      NULLCUDA_CARD: described.map((fields) => fields.join(";")).join("|"),
      NULLCUDA_SMI: rows.join("\n"),
      NULLCUDA_DRIVER: String(cuda),
      NULLCUDA_LOG: join(this.folder, "counted"),
      NULLCUDA_SHM: this.#state,
      ...env,
    };
  }

  /** From now on the card has so many bytes, whatever its own are. */
  limit(bytes: number, card = 0): void {
    const file = openSync(this.#state, "r+");
    const number = Buffer.alloc(8);
    number.writeBigUInt64LE(BigInt(bytes));
    writeSync(file, number, 0, 8, card * 8);
    closeSync(file);
  }

  /** Of each process that used a card. */
  counted(): Counted[] {
    const files = readdirSync(this.folder).filter((name) => /^counted\.\d+$/.test(name));
    return files.map((name) => JSON.parse(readFileSync(join(this.folder, name), "utf8")) as Counted);
  }

  /** Sum over all processes. */
  count(what: string): number {
    return this.counted().reduce((sum, one) => sum + Number(one[what] ?? 0), 0);
  }

  /** What was called beyond the stand-ins' own code: their answer is only that it succeeded. */
  unimplemented(): string[] {
    const names = this.counted().flatMap((one) => Object.keys(one).filter((key) => key.startsWith("unimplemented ")));
    return [...new Set(names)].map((name) => name.replace("unimplemented ", ""));
  }

  run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    const child = spawn(program, args, {
      cwd: this.folder,
      env: { ...this.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        said[name] += text;
      });
    }
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve({ code, ...said }));
    });
  }

  /** The command line, in this machine's folder. */
  hone(...args: string[]): Promise<Ended> {
    return this.run(process.execPath, [join(root, "dist/src/cli.js"), ...args]);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Interpreter of the environment whose PyTorch computes on null cards. */
export function nullCardPython(): string {
  const folder = join(built, "cache/hone");
  const name = readdirSync(folder).find((one) => /^python-.*-cuda13$/.test(one));
  if (name === undefined) throw new Error("no null card is built: run `yarn test:card`");
  return join(folder, name, "bin/python");
}

/** A line that updates.py prints. */
export interface LearnerLine {
  readonly [what: string]: unknown;
}

/** What updates.py prints on a machine. @throws with its last words when it fails */
export async function learnerLines(
  machine: Machine,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<LearnerLine[]> {
  const program = join(root, "test/null-card/updates.py");
  const { code, stdout, stderr } = await machine.run(nullCardPython(), [program, ...args], env);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${stderr.trim().split("\n").slice(-5).join("\n")}`);
  // Unsloth prints, too.
  const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as LearnerLine);
}
