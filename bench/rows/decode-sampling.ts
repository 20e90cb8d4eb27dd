/**
 * Decoding with tokens drawn where the logits are (`sampling: "device"`) against sampling on the host, by turns: two engines
 * of the same weights on the same device, whichever it is. The notes count the bytes that each copied to the host.
 */
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { HoneError } from "../../src/core/util/errors.js";
import { modelFile } from "../../src/engine/models.js";
import { compare, decodeLength, decodeSpeed, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const name = "decode/sampling";

/** Bytes that a sampled token had copied to the host. */
function bytesPerToken(engine: LocalEngine): string {
  const { copiedBytes, decoded } = engine.stats();
  return `${Math.round(copiedBytes / decoded).toLocaleString("en")} bytes`;
}

export const bench: Bench = {
  name,
  about: "decode speed with tokens drawn on the device against the host's sampling, 8 and 32 sequences",
  models: ["0.5b"],
  async run(context) {
    const models = context.model ? [context.model] : [modelFile("tiny"), modelPath("qwen2-0.5b-shape-f16.gguf")];
    const rows: Row[] = [];
    for (const model of models) {
      for (const sequences of context.sequences ?? [8, 32]) {
        const load = (sampling: "host" | "device") =>
          context.load({ model, name: sampling, sampling, sequences, contextPerSequence: 512 });
        const host = await load("host");
        const device = await load("device");
        try {
          if (device.info.compute.sampling !== "device") throw new HoneError("this device does not draw tokens");
          const length = decodeLength(host);
          const settings = { sequences, prompt: Math.min(length.prompt, 64), tokens: length.tokens };
          for (const engine of [host, device]) await decodeSpeed(engine, { ...settings, tokens: 4 });
          const sides = {
            ours: () => decodeSpeed(device, settings),
            theirs: () => decodeSpeed(host, settings),
          };
          const about = { name, model: modelName(model), sequences, unit: "tokens/s", target: "" } as const;
          const row = await compare(context, about, "more", sides);
          const note = `copied for a token: ${bytesPerToken(device)}, by the host's sampling ${bytesPerToken(host)}`;
          context.log(note);
          rows.push({ ...row, note: `ours: drawn on the device, theirs: sampled on the host; ${note}` });
        } finally {
          await host.close();
          await device.close();
        }
      }
    }
    return rows;
  },
};
