import type { Engine } from "../../src/engine/index.js";

/** The tokenizer of an engine under another chat template. */
export function withTemplate<T extends Engine>(engine: T, chatTemplate: string): T {
  const info = { ...engine.info, chatTemplate };
  const [tokenize, detokenize] = [engine.tokenize.bind(engine), engine.detokenize.bind(engine)];
  return { info, tokenize, detokenize } as unknown as T;
}
