/** The plan's count of what a pass keeps, against PyTorch's own count on the learner's real graph. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { PRECISIONS } from "../../src/core/learn/types.js";
import type { ModelShape } from "../../src/engine/models.js";
import { activations, kept, MASK_ALIGNMENT } from "../../src/machine/plan/activations.js";
import { adapterParameters } from "../../src/machine/plan/input.js";
import { CHUNK_BYTES, passOf, VALUES_PIECE } from "../../src/machine/plan/learner-memory.js";
import { ensureLearnerPython } from "../support/python.js";

const counted = z.object({
  shape: z.record(z.string(), z.number()),
  own: z.record(z.string(), z.record(z.string(), z.number())),
  rank: z.number(),
  cases: z.array(
    z.object({
      architecture: z.string(),
      precision: z.enum(PRECISIONS),
      targets: z.array(z.string()),
      row: z.tuple([z.number(), z.array(z.number())]),
      checkpointing: z.boolean(),
      saved: z.number(),
      live: z.number().optional(),
    }),
  ),
  constants: z.object({
    chunkBytes: z.record(z.string(), z.number()),
    maskAlignment: z.number(),
    piece: z.record(z.string(), z.number()),
  }),
});

let torch: z.output<typeof counted>;
beforeAll(async () => {
  const script = fileURLToPath(new URL("saved_tensors.py", import.meta.url));
  const python = await ensureLearnerPython();
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  const printed = execFileSync(python, [script], { encoding: "utf8", env, stdio: ["ignore", "pipe", "ignore"] });
  torch = counted.parse(JSON.parse(printed.trim().split("\n").at(-1) as string));
});

const shapeOf = (architecture: string): ModelShape => {
  const shape: Record<string, number> = { ...torch.shape, ...torch.own[architecture] };
  return {
    architecture,
    bytes: 0,
    parameters: 0,
    weightType: "F16",
    layers: shape.num_hidden_layers as number,
    embedding: shape.hidden_size as number,
    feedForward: shape.intermediate_size as number,
    heads: shape.num_attention_heads as number,
    kvHeads: shape.num_key_value_heads as number,
    headSize: shape.head_dim as number,
    vocabulary: shape.vocab_size as number,
    trainedContext: 512,
    ...(shape.sliding_window === undefined ? {} : { window: shape.sliding_window }),
    // The first and the last of three layers.
    ...(shape.conv_L_cache === undefined ? {} : { convolution: { layers: [0, 2], taps: shape.conv_L_cache } }),
  };
};

describe("what a pass keeps for its backward pass", () => {
  it("is what PyTorch's autograd saves, for every architecture, precision, row and adapter", () => {
    expect(torch.cases.length).toBe(224);
    for (const { architecture, precision, targets, row, checkpointing, saved } of torch.cases) {
      const settings = {
        shape: shapeOf(architecture),
        loraRank: torch.rank,
        loraTargets: targets,
        precision,
        blocks: false,
      };
      const one = activations(settings, [{ prompt: row[0], completions: row[1] }]);
      // Checkpointing keeps what layers share outside of autograd, which so does not count it.
      const planned = kept(one, settings.shape.layers, checkpointing) - (checkpointing ? one.shared : 0);
      const what = JSON.stringify({
        architecture,
        precision,
        targets: targets.length,
        row,
        checkpointing,
        planned,
        saved,
      });
      // Lengths do not say that short branches attend together: then the plan is on the safe side.
      const together = row[1].length > 10;
      expect(planned / saved, what).toBeGreaterThan(together && !checkpointing ? 1.02 : 0.98);
      expect(planned / saved, what).toBeLessThan(together ? 1.5 : 1.02);
    }
  });

  it("with gradients and logits is as much as tensors take at once", () => {
    for (const { architecture, precision, targets, row, checkpointing, live } of torch.cases) {
      if (live === undefined || row[1].length > 10) continue;
      const shape = shapeOf(architecture);
      const settings = { shape, loraRank: torch.rank, loraTargets: targets, precision, blocks: false };
      const sampled = row[1].reduce((total, length) => total + length, 0);
      const { keeping, beside } = passOf(settings, [{ prompt: row[0], completions: row[1] }], sampled, checkpointing);
      // The gradients of the adapter are counted with the adapter.
      const planned = keeping + beside + 4 * adapterParameters(shape, torch.rank, targets);
      const what = JSON.stringify({ architecture, precision, row, checkpointing, planned, live });
      expect(planned / live, what).toBeGreaterThan(0.85);
      expect(planned / live, what).toBeLessThan(1.15);
    }
  });
});

it("has the learner's constants", () => {
  expect(torch.constants).toEqual({
    chunkBytes: CHUNK_BYTES,
    maskAlignment: MASK_ALIGNMENT,
    piece: VALUES_PIECE,
  });
});
