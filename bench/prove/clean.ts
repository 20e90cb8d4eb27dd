/** Runs without a fault: small and large steps, hone's own and a pretrained model, 16 and 4 bits, and a software GPU. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { cacheHome, packageRoot } from "../../src/core/util/paths.js";

export interface CleanSetting {
  readonly model: string;
  readonly weights: string;
  readonly device: "CPU" | "software GPU";
  readonly learningRate: string;
  readonly seed: number;
  /** Of all steps. */
  readonly share: number;
  readonly groups: number;
  /** Rollouts of a group. Default 8. */
  readonly groupSize?: number;
  readonly flags: readonly string[];
}

const CPU = { device: "CPU", weights: "f16", groups: 2 } as const;
const WORDS = ["--task", "examples/what-kind.ts", "--max-tokens", "12"];

export const cleanSettings = (database: string): readonly CleanSetting[] => {
  const mail = ["--db", database];
  return [
    { ...CPU, model: "tiny", learningRate: "2e-5", seed: 1, share: 0.2, flags: mail },
    { ...CPU, model: "tiny", learningRate: "1e-3", seed: 2, share: 0.2, flags: mail },
    {
      ...{ ...CPU, model: "tiny", learningRate: "1e-3", seed: 3, share: 0.16, groups: 4 },
      flags: [...mail, "--on-tool-error", "stop"],
    },
    {
      ...{ ...CPU, model: "tiny", device: "software GPU", learningRate: "2e-4", seed: 4, share: 0.04 },
      groupSize: 4,
      // Kernels are compiled for seconds at their first use.
      flags: [...mail, "--max-turns", "4"],
    },
    {
      ...{ ...CPU, model: "smollm2-135m-q4_1", learningRate: "5e-4", seed: 5, share: 0.16, groups: 4 },
      flags: [...WORDS, "--weights", "f16"],
    },
    {
      ...CPU,
      model: "smollm2-135m-q4_1",
      weights: "q4_1",
      learningRate: "5e-5",
      seed: 6,
      share: 0.16,
      groups: 4,
      flags: WORDS,
    },
    { ...CPU, model: "tiny", learningRate: "1e-4", seed: 7, share: 0.08, groups: 4, flags: mail },
  ];
};

interface Devices {
  lookAtMachine(): object;
  chooseDevice(machine: object): { readonly device?: { readonly env: Readonly<Record<string, string>> } };
}

/** Environment and flags of the device; undefined where this machine has none. */
export async function deviceOf({ device }: CleanSetting) {
  if (device === "CPU") return { env: {}, flags: ["--gpu", "off"] };
  const script = pathToFileURL(join(packageRoot, "scripts/gpu-device.mjs")).href;
  const { chooseDevice, lookAtMachine } = (await import(script)) as Devices;
  const { device: found } = chooseDevice({ ...lookAtMachine(), software: true });
  if (!found) return undefined;
  // As the tests on it (scripts/test-gpu.mjs): kernels are compiled soonest with vectors of 4, and kept.
  const compiling = { LP_NATIVE_VECTOR_WIDTH: "128", MESA_SHADER_CACHE_DIR: join(cacheHome(), "hone", "shaders") };
  return { env: { ...found.env, ...compiling }, flags: ["--gpu", "vulkan"] };
}
