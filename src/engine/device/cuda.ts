/**
 * Which CUDA serves a card: engine and learner use the same major version, so that one set of runtime libraries, one
 * driver requirement and one explanation hold for both.
 */
import type { NvidiaGpu } from "./nvidia.js";

export type CudaMajor = 12 | 13;

interface Requirements {
  /** Oldest driver that runs programs of this major version (NVIDIA: CUDA minor version compatibility). */
  readonly driver: number;
  /**
   * Code in node-llama-cpp's libggml-cuda.so, by ten times the compute capability; test/device/cuda.test.ts reads it
   * from the files. Machine code runs on its generation from that number up. On other cards the driver compiles the PTX, and
   * must be no older than the toolkit that wrote it: minor version compatibility does not cover PTX.
   */
  readonly engine: { readonly machineCode: readonly number[]; readonly ptx: number; readonly ptxDriver: number };
  /** Lowest and highest capability that PyTorch's build has code for: cu130 and cu126 of the pinned version. */
  readonly learner: { readonly from: number; readonly below: number };
}

export const requirements: Readonly<Record<CudaMajor, Requirements>> = {
  // PTX 9.1 belongs to CUDA 13.1, whose driver is 590.
  13: {
    driver: 580,
    engine: { machineCode: [86, 89, 120, 121], ptx: 75, ptxDriver: 590 },
    learner: { from: 75, below: 1000 },
  },
  // The fallback library (@node-llama-cpp/linux-x64-cuda-ext). PTX 8.4 belongs to CUDA 12.4, whose driver is 550.
  12: {
    driver: 525,
    engine: { machineCode: [86], ptx: 50, ptxDriver: 550 },
    learner: { from: 50, below: 100 },
  },
};

/** The oldest driver with which this major version runs on a card of that capability; undefined: none. */
function driverFor(major: CudaMajor, capability: number | undefined): number | undefined {
  const { driver, engine, learner } = requirements[major];
  if (capability === undefined) return driver;
  if (capability < learner.from || capability >= learner.below || capability < engine.ptx) return undefined;
  const generation = Math.floor(capability / 10);
  const native = engine.machineCode.some((code) => Math.floor(code / 10) === generation && code <= capability);
  return native ? driver : Math.max(driver, engine.ptxDriver);
}

/** CUDA versions that serve a card with a driver, the best first; empty with a reason. */
export interface CudaFit {
  readonly majors: readonly CudaMajor[];
  readonly problem: string | undefined;
}

export function cudaFor(card: NvidiaGpu, driver: string | undefined): CudaFit {
  const { capability, name } = card;
  const needs = ([13, 12] as const).map((major) => ({ major, driver: driverFor(major, capability) }));
  const here = Number.parseInt(driver ?? "", 10);
  // The driver's version is unknown: the newest CUDA is tried, and its own error is shown.
  if (!Number.isFinite(here)) return { majors: [13, 12], problem: undefined };
  const majors = needs.flatMap((one) => (one.driver !== undefined && one.driver <= here ? [one.major] : []));
  if (majors.length > 0) return { majors, problem: undefined };
  const text = capability === undefined ? "" : ` (compute capability ${capabilityText(capability)})`;
  const oldest = Math.min(...needs.map((one) => one.driver ?? Number.POSITIVE_INFINITY));
  const problem = Number.isFinite(oldest)
    ? `the NVIDIA driver ${driver} is too old: ${name}${text} needs ${oldest} or newer`
    : `${name}${text} is older than what CUDA 12 and 13 run on`;
  return { majors, problem };
}

export const capabilityText = (capability: number) => (capability / 10).toFixed(1);

/** "13.0" gives 13; undefined for versions that hone does not support. */
export function majorOf(version: string | null | undefined): CudaMajor | undefined {
  const major = Number.parseInt(version ?? "", 10);
  return major === 12 || major === 13 ? major : undefined;
}

/** The oldest driver that runs this major version on any card. */
export const oldestDriver = (major: CudaMajor) => requirements[major].driver;
