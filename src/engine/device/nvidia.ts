/** The NVIDIA GPUs of this machine as their driver lists them. Loads no part of CUDA. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

export interface NvidiaGpu {
  /** Index in nvidia-smi: the order of the PCI bus. */
  readonly index: number;
  /** "GPU-…", or "MIG-…" for a slice of one; undefined where it is unknown. */
  readonly uuid: string | undefined;
  readonly name: string;
  /** Ten times the compute capability: 89 is 8.9. */
  readonly capability: number | undefined;
  readonly memoryBytes: number | undefined;
}

export interface NvidiaLook {
  readonly gpus: readonly NvidiaGpu[];
  /** "580.65.06" */
  readonly driver: string | undefined;
  /** One line that says why the driver lists no card although a driver or a card is there. */
  readonly problem: string | undefined;
}

/** Where to search: tests use folders and a PATH of their own. */
export interface Machine {
  readonly env: NodeJS.ProcessEnv;
  readonly root: string;
}

export const thisMachine: Machine = { env: process.env, root: "/" };

/** Windows' driver puts its nvidia-smi and libcuda there, which need not be on PATH. */
export const WSL_FOLDER = "usr/lib/wsl/lib";

/** Time limit in milliseconds: nvidia-smi wakes every card, and large machines have eight. */
const SMI_TIMEOUT_MS = 60_000;

const FIELDS = ["index", "uuid", "name", "driver_version", "memory.total"] as const;

/** Cache, since a query takes seconds on some machines. */
let ownLook: NvidiaLook | undefined;

/** The NVIDIA GPUs of this machine, hidden ones included. Costs nothing where there is no nvidia-smi. */
export function lookAtNvidia(machine: Machine = thisMachine): NvidiaLook {
  if (machine !== thisMachine) return look(machine);
  ownLook ??= look(machine);
  return ownLook;
}

function look(machine: Machine): NvidiaLook {
  const smi = findSmi(machine);
  return smi === undefined ? fromDeviceFiles(machine) : fromSmi(smi, machine);
}

function findSmi({ env, root }: Machine): string | undefined {
  const folders = [...(env.PATH ?? "").split(delimiter).filter(Boolean), join(root, WSL_FOLDER)];
  return folders.map((folder) => join(folder, "nvidia-smi")).find((file) => existsSync(file));
}

function fromSmi(smi: string, machine: Machine): NvidiaLook {
  const ask = (fields: readonly string[]) => {
    // Without CUDA_VISIBLE_DEVICES, so that all cards are listed, and with messages in English.
    const asked = spawnSync(smi, [`--query-gpu=${fields.join(",")}`, "--format=csv,noheader,nounits"], {
      encoding: "utf8",
      env: { ...machine.env, LC_ALL: "C" },
      timeout: SMI_TIMEOUT_MS,
    });
    return { ...asked, said: `${asked.stdout ?? ""}\n${asked.stderr ?? ""}`.trim() };
  };
  let asked = ask([...FIELDS, "compute_cap"]);
  // Drivers before 510 do not know the capability.
  if (asked.status !== 0 && /not a valid field/i.test(asked.said)) asked = ask(FIELDS);
  const rows = asked.status === 0 ? rowsOf(asked.stdout) : [];
  if (rows.length > 0) return { gpus: rows.map(gpuOf), driver: rows[0]?.[3], problem: undefined };

  const why = asked.error
    ? `nvidia-smi cannot be run: ${asked.error.message}`
    : `nvidia-smi fails: ${asked.said.split("\n")[0] || `exit code ${asked.status}`}`;
  // The program may be installed on a machine without a card.
  const there = deviceFiles(machine).length > 0 || hasPciCard(machine) || smi.endsWith(`${WSL_FOLDER}/nvidia-smi`);
  return { gpus: [], driver: kernelDriver(machine), problem: there ? why : undefined };
}

function rowsOf(csv: string): string[][] {
  const lines = csv.split("\n").map((line) => line.split(",").map((cell) => cell.trim()));
  return lines.filter((cells) => /^\d+$/.test(cells[0] ?? "") && cells.length >= FIELDS.length);
}

function gpuOf([index, uuid, name, , memory, capability]: readonly string[]): NvidiaGpu {
  // "[N/A]" where the driver does not know it, such as the memory of a card that shares the machine's.
  const number = (text: string | undefined) => (text && /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined);
  const mebibytes = number(memory);
  const version = number(capability);
  return {
    index: Number(index),
    uuid: uuid?.startsWith("GPU-") ? uuid : undefined,
    name: name || "NVIDIA GPU",
    capability: version === undefined ? undefined : Math.round(version * 10),
    memoryBytes: mebibytes === undefined ? undefined : mebibytes * 2 ** 20,
  };
}

/** Containers may have the driver without its tools. */
function fromDeviceFiles(machine: Machine): NvidiaLook {
  const gpus = deviceFiles(machine).map((_, index) => ({
    index,
    uuid: undefined,
    name: "NVIDIA GPU",
    capability: undefined,
    memoryBytes: undefined,
  }));
  return { gpus, driver: kernelDriver(machine), problem: undefined };
}

/** /dev/nvidia0, /dev/nvidia1 … */
const deviceFiles = ({ root }: Machine) => listed(join(root, "dev")).filter((name) => /^nvidia\d+$/.test(name));

/** "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …" */
function kernelDriver({ root }: Machine): string | undefined {
  const text = contents(join(root, "proc/driver/nvidia/version"));
  return /NVRM version:.*?\s(\d{3,}\.\d+(?:\.\d+)*)\s/.exec(text)?.[1];
}

function hasPciCard({ root }: Machine): boolean {
  const folder = join(root, "sys/bus/pci/devices");
  const read = (device: string, file: string) => contents(join(folder, device, file)).trim();
  return listed(folder).some((one) => read(one, "vendor") === "0x10de" && read(one, "class").startsWith("0x03"));
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Does not exist on this kind of machine.
    return [];
  }
}

function contents(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Does not exist on this kind of machine.
    return "";
  }
}
