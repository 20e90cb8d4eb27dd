/** Which models fit which cards with default settings, for the documentation. Planned; not run on CUDA. */
import { bySize, CONTEXT, ROLLOUTS_AT_ONCE, sizeOf } from "../config/index.js";
import type { ModelShape } from "../engine/index.js";
import { withFreeChanges } from "./fit.js";
import type { PlanInput } from "./input.js";
import { fits, type Room, waysToFit } from "./remedies.js";

/** Of a card's memory, in GiB; the driver and the screen keep some. */
const CARDS = [8, 12, 16, 24, 80];
const USABLE = 0.95;
const LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

type Sizes = Pick<ModelShape, "layers" | "embedding" | "feedForward" | "heads" | "kvHeads" | "headSize" | "vocabulary">;

/** A Qwen2.5 model in f16, from its config.json. */
function qwen(sizes: Sizes, tied: boolean): ModelShape {
  const { layers, embedding: d, feedForward, heads, kvHeads, headSize, vocabulary } = sizes;
  const attention = 2 * d * headSize * (heads + kvHeads) + headSize * (heads + 2 * kvHeads);
  const layer = attention + 3 * d * feedForward + 2 * d;
  const parameters = layers * layer + d + (tied ? 1 : 2) * vocabulary * d;
  const bytes = 2 * parameters;
  return { architecture: "qwen2", bytes, parameters, weightType: "F16", trainedContext: 32_768, ...sizes };
}

const small = { headSize: 64, vocabulary: 151_936 };
const large = { headSize: 128, vocabulary: 152_064 };
export const QWEN: Readonly<Record<string, ModelShape>> = {
  "0.5B": qwen({ layers: 24, embedding: 896, feedForward: 4864, heads: 14, kvHeads: 2, ...small }, true),
  "1.5B": qwen(
    { layers: 28, embedding: 1536, feedForward: 8960, heads: 12, kvHeads: 2, ...small, headSize: 128 },
    true,
  ),
  "3B": qwen(
    { layers: 36, embedding: 2048, feedForward: 11_008, heads: 16, kvHeads: 2, ...small, headSize: 128 },
    true,
  ),
  "7B": qwen({ layers: 28, embedding: 3584, feedForward: 18_944, heads: 28, kvHeads: 4, ...large }, false),
  "14B": qwen({ layers: 48, embedding: 5120, feedForward: 13_824, heads: 40, kvHeads: 8, ...large }, false),
};

/** "yes", what hone changes by itself, flags to give, or "no". */
export function onCard(shape: ModelShape, gibibytes: number): string {
  const { groups, group, loraRank, microBatchTokens } = bySize[sizeOf(shape.parameters)];
  const wanted: PlanInput = {
    shape,
    concurrency: Math.min(groups * group, ROLLOUTS_AT_ONCE.gpu),
    context: CONTEXT,
    loraRank,
    loraTargets: LINEAR,
    microBatchTokens,
    gradientCheckpointing: false,
    learnerLifetime: "run",
    releaseWeights: false,
    gpu: "cuda",
    precision: "auto",
    hfWeights: false,
    lanes: 1,
  };
  const room: Room = { host: Number.POSITIVE_INFINITY, gpu: gibibytes * 2 ** 30 * USABLE };
  const input = withFreeChanges(wanted, { concurrency: true, gradientCheckpointing: true }, room);
  if (fits(input, room)) {
    const changes = [
      input.gradientCheckpointing ? "checkpointing" : "",
      input.concurrency < wanted.concurrency ? `${input.concurrency} at once` : "",
    ].filter((text) => text !== "");
    return changes.length === 0 ? "yes" : `yes: ${changes.join(", ")}`;
  }
  const flags = waysToFit(wanted, room);
  return flags ? `\`${flags.join(" ")}\`` : "no";
}

/** docs/memory.md. */
export function cardsTable(): string {
  const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const models = Object.entries(QWEN);
  const lines = [
    row(["card", ...models.map(([name]) => name)]),
    row(["---", ...models.map(() => "---")]),
    ...CARDS.map((card) => row([`${card} GB`, ...models.map(([, shape]) => onCard(shape, card))])),
  ];
  return `${lines.join("\n")}\n`;
}
