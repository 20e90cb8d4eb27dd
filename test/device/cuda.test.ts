/** Which CUDA a card gets. */
import { describe, expect, it } from "vitest";
import { cudaFor } from "../../src/engine/device/cuda.js";

const cudaOf = (capability: number | undefined, driver: string | undefined) =>
  cudaFor({ index: 0, uuid: undefined, name: "NVIDIA X", capability, memoryBytes: undefined }, driver);

describe("the CUDA of a card", () => {
  it.each([
    // RTX 4090 and 5090: machine code.
    [89, "580.65.06", [13, 12]],
    [89, "535.183.01", [12]],
    [120, "580.65.06", [13]],
    // A100, H100, T4: PTX, which an older driver than its toolkit's does not compile.
    [80, "590.44.01", [13, 12]],
    [80, "580.65.06", [12]],
    [90, "580.65.06", [12]],
    [75, "550.54.14", [12]],
    // CUDA 13 has dropped Volta and Pascal.
    [70, "590.44.01", [12]],
    [61, "580.65.06", [12]],
    // Nobody says which card, or which driver.
    [undefined, "580.65.06", [13, 12]],
    [undefined, "550.54.14", [12]],
    [89, undefined, [13, 12]],
  ])("capability %s, driver %s", (capability, driver, majors) => {
    expect(cudaOf(capability, driver)).toEqual({ majors, problem: undefined });
  });

  it.each([
    [89, "515.65.01", "the NVIDIA driver 515.65.01 is too old: NVIDIA X (compute capability 8.9) needs 525 or newer"],
    [80, "535.183.01", "the NVIDIA driver 535.183.01 is too old: NVIDIA X (compute capability 8.0) needs 550 or newer"],
    [120, "570.86.15", "the NVIDIA driver 570.86.15 is too old: NVIDIA X (compute capability 12.0) needs 580 or newer"],
    [100, "580.65.06", "the NVIDIA driver 580.65.06 is too old: NVIDIA X (compute capability 10.0) needs 590 or newer"],
    [undefined, "470.42.01", "the NVIDIA driver 470.42.01 is too old: NVIDIA X needs 525 or newer"],
    [37, "470.42.01", "NVIDIA X (compute capability 3.7) is older than what CUDA 12 and 13 run on"],
  ])("capability %s, driver %s: none, and the driver that would do", (capability, driver, problem) => {
    expect(cudaOf(capability, driver)).toEqual({ majors: [], problem });
  });
});
