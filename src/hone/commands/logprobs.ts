/** `yarn hone logprobs`: the engine's log-probabilities of given tokens, for comparison with other programs. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { printable } from "../../core/util/text.js";
import { takeDevice } from "../../engine/device/device.js";
import { engineOptions } from "../../engine/engine-options.js";
import { loadEngine } from "../../engine/factory.js";
import { trainedContext } from "../../engine/models.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { adapterFile, existing } from "../../machine/play/engine-player.js";
import { prepareMachine } from "../../machine/python/machine.js";
import { defineCommand } from "../command.js";

const idsSchema = z
  .array(
    z
      .int()
      .min(0)
      .max(2 ** 31 - 1),
  )
  .min(2, "the first that is scored is the second");

/** @throws HoneError when the file does not hold two token ids or more, as a JSON array */
function readTokens(file: string): Int32Array {
  try {
    return Int32Array.from(idsSchema.parse(JSON.parse(readFileSync(file, "utf8"))));
  } catch (error) {
    const [issue] = error instanceof z.ZodError ? error.issues : [];
    const why = issue
      ? `${issue.path.map((at) => `entry ${String(at)}: `).join("")}${issue.message}`
      : messageOf(error);
    throw new HoneError(`${file} holds no JSON array of token ids such as [151644, 8948, 198]: ${why}`, {
      cause: error,
    });
  }
}

export const logprobsCommand = defineCommand({
  name: "logprobs",
  required: ["model", "tokens"],
  async run(config, io) {
    takeDevice(config);
    const model = await resolveModel(config.model, config, io);
    const adapter = config.adapter === undefined ? null : await adapterFile(config.adapter, model, config, io);
    const tokens = readTokens(existing(config.tokens, "--tokens"));
    const trained = await trainedContext(model);
    if (tokens.length > trained) {
      throw new HoneError(
        `${config.tokens} holds ${tokens.length} token ids; the model was trained with ${trained} at most`,
      );
    }
    await prepareMachine(config, io.log);
    const wanted = engineOptions(config, { model, sequences: 1, contextPerSequence: tokens.length });
    const engine = await loadEngine(wanted, io.log);
    try {
      if (adapter !== null) await engine.useAdapter(adapter);
      const logprobs = [...(await engine.score(tokens))];
      logprobs.forEach((logprob, i) => {
        const id = tokens[i + 1] as number;
        const text = JSON.stringify(printable(engine.detokenize([id], { special: true })));
        io.log(`${logprob.toFixed(5).padStart(10)}  ${String(id).padStart(7)}  ${text}`);
      });
      return { logprobs };
    } finally {
      await engine.close();
    }
  },
});
