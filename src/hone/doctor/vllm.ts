/** With `--engine vllm`: whether vLLM is installed and plays here, or each server of `--engine-url` is set up for the model. */

import { type Config, type OptionOf, sizedDefault } from "../../core/config/config.js";
import { CONTEXT } from "../../core/config/defaults.js";
import type { PolicyEngine } from "../../core/engine/engine.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { modelShape } from "../../engine/models.js";
import { conversingModel } from "../../machine/models/header.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { checkEngineChoice } from "../../machine/play/engine-choice.js";
import { openPlaying } from "../../machine/play/playing-engine.js";
import { vllmIsReady } from "../../machine/python/vllm.js";
import { type Check, none, ok, wrong } from "./check.js";

export type VllmConfig = Config<OptionOf<"doctor">>;

/** Tokens that are played on each. */
const PLAYED = 16;
const SEQUENCES = 2;

/** @param cuda whether this machine's engine computes on an NVIDIA GPU */
export async function checkVllm(
  config: VllmConfig,
  cuda: boolean,
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<Check[]> {
  checkEngineChoice(config);
  const { engineUrl, enginePython } = config;
  if (engineUrl === undefined && enginePython === undefined && !vllmIsReady(cuda)) {
    const install = `\`${hone("doctor")} --engine vllm --install\``;
    return [none("vllm", `vLLM is not installed; ${install} does, or the first ${hone("train")} with it`)];
  }
  const model = await resolveModel(config.model ?? "tiny", config, { log, signal });
  const { trainedContext } = await conversingModel(model);
  const { parameters } = await modelShape(model);
  const wanted = {
    model,
    sequences: SEQUENCES,
    contextPerSequence: Math.min(config.context ?? CONTEXT, trainedContext),
    adapterRank: config.loraRank ?? sizedDefault("loraRank", parameters),
  };
  const checks: Check[] = [];
  for (const [index, url] of (engineUrl ?? [undefined]).entries()) {
    const name = url === undefined || engineUrl?.length === 1 ? "vllm" : `vllm ${index + 1}`;
    const one = { ...config, ...(url === undefined ? {} : { engineUrl: [url] }) };
    checks.push(await checked(name, () => openPlaying(one, wanted, cuda, { log, signal })));
  }
  return checks;
}

async function checked(name: string, open: () => Promise<{ readonly engine: PolicyEngine }>): Promise<Check> {
  let engine: PolicyEngine | undefined;
  try {
    ({ engine } = await open());
    const sequence = engine.open(engine.tokenize("Good morning", { special: false }));
    const { tokens } = await sequence.generate({ maxTokens: PLAYED, sampling: { seed: 1 }, stop: [] });
    sequence.close();
    const { device } = engine.info.compute;
    const where = "servers" in engine.info ? ` at ${engine.info.servers.join()}` : "";
    return ok(name, `${device}${where} plays (${tokens.length} tokens), and changes adapters`, { device });
  } catch (error) {
    if (!(error instanceof HoneError)) throw error;
    const [found = "", mend = "see docs/vllm.md"] = messageOf(error).split(/: (?=start it with|name one)/);
    return wrong(name, found, mend);
  } finally {
    await engine?.close();
  }
}
