// Needs a process of its own: what is found of CUDA's libraries is kept in it.
/** llama-batched-bench beside an engine: on the same device, or not at all. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { batchedBench } from "../../bench/batched-bench.js";
import { needDevice } from "../../bench/llama-tools.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { lookForCuda, takeDevice } from "../../src/engine/device/device.js";
import { runtimeNames } from "../../src/engine/device/runtime.js";
import { listCards, program } from "../support/nvidia.js";

const root = mkdtempSync(join(tmpdir(), "hone-batched-bench-"));
afterAll(() => rmSync(root, { recursive: true }));

const settings = { sequences: 4, prompt: 64, tokens: 32 };
const CARD = "NVIDIA One";
const RESULT = '{"n_kv_max": 2048, "pl": 4, "speed_tg": 1234.5}';

function engineOn(gpu: "cuda" | false, device: string, offloadedLayers: number): Pick<LocalEngine, "info"> {
  const compute = { backend: gpu || "cpu", device, offloadedLayers, layers: 25, flashAttention: true };
  const info = { model: "m.gguf", gpu, compute, contextPerSequence: 512, batch: 2048, ubatch: 512, threads: 2 };
  return { info } as unknown as Pick<LocalEngine, "info">;
}

/** Prints what llama.cpp's tools do where these layers are on this device; leaves its arguments and library path. */
function tool(name: string, layers: number, device?: string): string {
  const report = device
    ? [
        `0.00.1 I llama_prepare_model_devices: using device CUDA0 (${device}) (0000:01:00.0) - 23660 MiB free`,
        `0.00.2 I load_tensors: offloaded ${layers}/25 layers to GPU`,
      ]
    : ["warning: no usable GPU found, --gpu-layers option will be ignored"];
  const listed = device ? `  CUDA0: ${device} (24080 MiB, 23660 MiB free)` : "  (none)";
  const file = join(root, name, "tool");
  return program(
    join(root, name),
    "tool",
    [
      `echo "$LD_LIBRARY_PATH" > ${file}.path; echo "$@" > ${file}.args`,
      `if [ "$1" = --list-devices ]; then echo "Available devices:"; echo "${listed}"; exit 0; fi`,
      ...report.map((line) => `echo "${line}" >&2`),
      `echo '${RESULT}'`,
    ].join("\n"),
  );
}

describe("llama-batched-bench", () => {
  it("is compared with an engine whose layers are on the same card", async () => {
    const same = tool("same", 25, CARD);
    expect(await batchedBench(same, engineOn("cuda", CARD, 25), settings)).toBe(1234.5);
    await needDevice(same, engineOn("cuda", CARD, 25));
  });

  it("is not compared with a card when it computes on the CPU, with fewer layers on it, or on another", async () => {
    const why = /, and the engine on NVIDIA One: their speeds cannot be compared$/;
    const refused = async (file: string) => {
      const error: Error = await batchedBench(file, engineOn("cuda", CARD, 25), settings).then(
        () => expect.fail("it was compared"),
        (thrown) => thrown,
      );
      expect(error.message).toMatch(why);
      return error.message.replace(why, "");
    };
    expect(await refused(tool("cpu", 0))).toBe("llama-batched-bench computes on the CPU");
    expect(await refused(tool("less", 20, CARD))).toBe("llama-batched-bench computes on NVIDIA One with 20 layers");
    expect(await refused(tool("other", 25, "NVIDIA Two"))).toBe("llama-batched-bench computes on NVIDIA Two");
  });

  it("is kept off cards beside an engine on the CPU", async () => {
    const file = tool("off", 0);
    expect(await batchedBench(file, engineOn(false, "CPU", 0), settings)).toBe(1234.5);
    expect(readFileSync(`${file}.args`, "utf8")).toMatch(/-ngl 0 .*--device none/);
    await expect(batchedBench(tool("on", 25, CARD), engineOn(false, "CPU", 0), settings)).rejects.toThrow(
      "computes on NVIDIA One with 25 layers, and the engine on CPU",
    );
  });
});

describe("llama-server", () => {
  it("is not compared with a card that it does not see", async () => {
    await expect(needDevice(tool("blind", 0), engineOn("cuda", CARD, 25))).rejects.toThrow(
      "tool computes on the CPU, and the engine on NVIDIA One: their speeds cannot be compared",
    );
    await needDevice(tool("unneeded", 0), engineOn(false, "CPU", 0));
  });
});

describe("CUDA's libraries of a Python environment", () => {
  const site = join(root, "site");
  const lib = join(site, "nvidia/cu13/lib");
  beforeAll(() => {
    mkdirSync(lib, { recursive: true });
    for (const name of runtimeNames(13)) writeFileSync(join(lib, name), "");
    listCards(join(root, "bin"), { names: [CARD] });
    const machine = { env: { PATH: join(root, "bin") }, root };
    takeDevice({ gpu: "cuda" }, machine);
    lookForCuda({ sites: [site], prefix: undefined, torchCuda: "13.0" }, machine);
  });

  it("are found by the tools too", async () => {
    const file = tool("libraries", 25, CARD);
    await batchedBench(file, engineOn("cuda", CARD, 25), settings);
    expect(readFileSync(`${file}.path`, "utf8").split(":")[0]?.trim()).toBe(lib);
    await needDevice(file, engineOn("cuda", CARD, 25));
    expect(readFileSync(`${file}.path`, "utf8").split(":")[0]?.trim()).toBe(lib);
  });
});
