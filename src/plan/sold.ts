/**
 * NVIDIA's cards as their datasheets describe them: what the memory plan and the arithmetic of a step take of them. Each line
 * names its source. Products are dense, of bf16 with sums in f32.
 */
export interface SoldCard {
  /** As `--cards` takes it. */
  readonly name: string;
  readonly title: string;
  /** GiB. */
  readonly memory: number;
  /** Bytes a second of its memory. */
  readonly bandwidth: number;
  /** Floating point operations a second in bf16, and in f32 without tensor cores. */
  readonly bf16: number;
  readonly f32: number;
  /** Bytes a second in one direction: to the host, and to another card of the machine. */
  readonly bus: number;
  readonly link: number;
  readonly source: string;
}

/** PCIe with 16 lanes, in one direction (PCI-SIG: 16 or 32 gigatransfers a second, 128b/130b). */
const PCIE_4 = 31.5e9;
const PCIE_5 = 63e9;

type Line = readonly [
  name: string,
  title: string,
  memory: number,
  bandwidth: number,
  bf16: number,
  f32: number,
  bus: number,
  link: number,
  source: string,
];

const LINES: readonly Line[] = [
  // GB a second and TFLOP/s, as the sources give them.
  ["3060", "RTX 3060", 12, 360, 25.5, 12.7, PCIE_4, PCIE_4, "Ampere GA102 whitepaper, by cores and clock"],
  ["3090", "RTX 3090", 24, 936, 71, 35.6, PCIE_4, PCIE_4, "Ampere GA102 whitepaper"],
  ["4090", "RTX 4090", 24, 1008, 165, 82.6, PCIE_4, PCIE_4, "Ada whitepaper"],
  ["5090", "RTX 5090", 32, 1792, 209.5, 104.8, PCIE_5, PCIE_5, "RTX Blackwell whitepaper"],
  ["a10", "A10", 24, 600, 125, 31.2, PCIE_4, PCIE_4, "A10 datasheet"],
  ["l4", "L4", 24, 300, 121, 30.3, PCIE_4, PCIE_4, "L4 datasheet, half of the rate with sparsity"],
  ["a6000", "RTX A6000", 48, 768, 154.8, 38.7, PCIE_4, PCIE_4, "Ampere GA102 whitepaper"],
  ["l40s", "L40S", 48, 864, 362, 91.6, PCIE_4, PCIE_4, "L40S datasheet"],
  ["a100-40gb", "A100 40GB", 40, 1555, 312, 19.5, PCIE_4, 300e9, "A100 datasheet, SXM"],
  ["a100-80gb", "A100 80GB", 80, 2039, 312, 19.5, PCIE_4, 300e9, "A100 datasheet, SXM"],
  ["h100-80gb", "H100 80GB", 80, 3350, 989, 67, PCIE_5, 450e9, "H100 datasheet, SXM; half of the rate with sparsity"],
  ["h200", "H200", 141, 4800, 989, 67, PCIE_5, 450e9, "H200 datasheet, SXM; half of the rate with sparsity"],
  ["b200", "B200", 180, 8000, 2250, 75, PCIE_5, 900e9, "DGX B200 datasheet, an eighth; half of the rate with sparsity"],
];

export const soldCards: readonly SoldCard[] = LINES.map(
  ([name, title, memory, bandwidth, bf16, f32, bus, link, source]) => ({
    ...{ name, title, memory, bus, link, source },
    ...{ bandwidth: bandwidth * 1e9, bf16: bf16 * 1e12, f32: f32 * 1e12 },
  }),
);
