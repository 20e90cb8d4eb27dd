/** The part of an engine over HTTP that is computed in this process: text to tokens and back. */
import type { Engine, LocalEngine } from "../core/engine/engine.js";

export class LocalTokenizer {
  protected readonly words: LocalEngine;

  /** @param words an engine of the same model, which is closed with this one */
  constructor(words: LocalEngine) {
    this.words = words;
  }

  tokenize(text: string, options: { readonly special: boolean }): Int32Array {
    return this.words.tokenize(text, options);
  }

  tokenizeAside(...args: Parameters<Engine["tokenizeAside"]>): ReturnType<Engine["tokenizeAside"]> {
    return this.words.tokenizeAside(...args);
  }

  detokenize(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): string {
    return this.words.detokenize(tokens, options);
  }

  bytes(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): Uint8Array {
    return this.words.bytes(tokens, options);
  }
}
