/** Cost of an unmerged adapter in decoding: rank 8, 16 or 32 on all linear layers, against no adapter. */
import { adapterRows } from "../adapter-rows.js";
import { modelPath } from "../models.js";
import type { Bench } from "../row.js";

const name = "adapter-cost";

export const bench: Bench = {
  name,
  about: "decode speed with an adapter of rank 8, 16 and 32, over that without",
  models: ["0.5b"],
  run: (context) =>
    adapterRows(
      context,
      name,
      [8, 16, 32].map((rank) => ({
        title: `rank ${rank}`,
        ours: modelPath(`qwen2-0.5b-shape-adapter-r${rank}.gguf`),
        theirs: null,
        note: async () => "ours: with the adapter; theirs: without",
      })),
    ),
};
