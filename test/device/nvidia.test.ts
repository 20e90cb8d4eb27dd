/** What is found of NVIDIA GPUs, on machines made of a PATH and a few files. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lookAtNvidia } from "../../src/engine/device/nvidia.js";
import { listCards, program, uuidOf } from "../support/nvidia.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "hone-nvidia-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const bin = () => join(root, "bin");
const look = () => lookAtNvidia({ env: { PATH: `${bin()}:/usr/bin-of-nobody:/bin` }, root });

function file(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

describe("NVIDIA's driver", () => {
  it("lists its cards through nvidia-smi", () => {
    listCards(bin(), { driver: "580.65.06", capability: "12.0", names: ["NVIDIA GeForce RTX 5090", "NVIDIA L4"] });
    const found = look();
    expect(found).toMatchObject({ driver: "580.65.06", problem: undefined });
    expect(found.gpus).toEqual([
      { index: 0, uuid: uuidOf(0), name: "NVIDIA GeForce RTX 5090", capability: 120, memoryBytes: 24 * 2 ** 30 },
      { index: 1, uuid: uuidOf(1), name: "NVIDIA L4", capability: 120, memoryBytes: 24 * 2 ** 30 },
    ]);
  });

  it("is asked again without the capability when it is too old to know of it", () => {
    program(
      bin(),
      "nvidia-smi",
      `case "$1" in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac
echo "0, ${uuidOf(0)}, Tesla K80, 470.42.01, [N/A]"`,
    );
    expect(look()).toEqual({
      gpus: [{ index: 0, uuid: uuidOf(0), name: "Tesla K80", capability: undefined, memoryBytes: undefined }],
      driver: "470.42.01",
      problem: undefined,
    });
  });

  it("that does not answer is a finding, where there is a card", () => {
    program(
      bin(),
      "nvidia-smi",
      "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML library version: 580.65'; exit 18",
    );
    expect(look()).toEqual({ gpus: [], driver: undefined, problem: undefined });
    file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    file("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
    file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Fri Jan 24\nGCC\n");
    expect(look()).toEqual({
      gpus: [],
      driver: "570.86.15",
      problem: "nvidia-smi fails: Failed to initialize NVML: Driver/library version mismatch",
    });
  });

  it("in Windows is asked where WSL has its programs", () => {
    listCards(join(root, "usr/lib/wsl/lib"), { names: ["NVIDIA Laptop"] });
    expect(look().gpus.map(({ name }) => name)).toEqual(["NVIDIA Laptop"]);
  });

  it("is known by its files where a container has no nvidia-smi", () => {
    for (const name of ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"]) file(`dev/${name}`, "");
    file(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (x)\n",
    );
    const { gpus, driver } = look();
    expect(driver).toBe("575.57.08");
    expect(gpus.map(({ index, name, uuid }) => [index, name, uuid])).toEqual([
      [0, "NVIDIA GPU", undefined],
      [1, "NVIDIA GPU", undefined],
    ]);
  });

  it("is not there: nothing is found and nothing is wrong", () => {
    expect(look()).toEqual({ gpus: [], driver: undefined, problem: undefined });
  });
});
