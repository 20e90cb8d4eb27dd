/** `yarn hone logprobs`: the engine's log-probabilities of given tokens, for comparison with other programs. */
import { readFileSync } from "node:fs";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { printable } from "../../core/util/text.js";
import { takeDevice } from "../../engine/device/device.js";
import { engineOptions } from "../../engine/engine-options.js";
import { loadEngine } from "../../engine/factory.js";
import { trainedContext } from "../../engine/models.js";
import { linesTo } from "../../machine/models/io.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { adapterFile, existing } from "../../machine/play/engine-player.js";
import { prepareMachine } from "../../machine/python/machine.js";
import { defineCommand } from "../command.js";

/** @throws HoneError when the file does not hold two token ids or more, as a JSON array */
function readTokens(file: string): Int32Array {
  let ids: unknown;
  try {
    ids = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    const why = error instanceof SyntaxError ? "is not JSON" : `cannot be read: ${messageOf(error)}`;
    throw new HoneError(`${file} ${why}; give a JSON array of token ids: [151644, 8948, 198]`, { cause: error });
  }
  if (!Array.isArray(ids)) throw new HoneError(`${file} holds no JSON array of token ids: [151644, 8948, 198]`);
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= 2 ** 31);
  if (wrong >= 0) {
    throw new HoneError(`entry ${wrong} of ${file} is ${JSON.stringify(ids[wrong])}, which is no token id`);
  }
  if (ids.length < 2)
    throw new HoneError(`${file} holds ${ids.length} token ids; the first that is scored is the second`);
  return Int32Array.from(ids as number[]);
}

export const logprobsCommand = defineCommand({
  name: "logprobs",
  required: ["model", "tokens"],
  async run(config, io) {
    takeDevice(config);
    const lines = linesTo(io.log, io.signal);
    const model = await resolveModel(config.model, config, lines);
    const adapter = config.adapter === undefined ? null : await adapterFile(config.adapter, model, config, lines);
    const tokens = readTokens(existing(config.tokens, "--tokens"));
    const trained = await trainedContext(model);
    if (tokens.length > trained) {
      throw new HoneError(
        `${config.tokens} holds ${tokens.length} token ids; the model was trained with ${trained} at most`,
      );
    }
    const log = (line: string) => io.log(line);
    await prepareMachine(config, log);
    const wanted = engineOptions(config, { model, sequences: 1, contextPerSequence: tokens.length });
    const engine = await loadEngine(wanted, log);
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
