/**
 * Vocabularies of byte-level BPE whose tokenizer.json has SentencePiece's `byte_fallback` all the same, as transformers
 * writes it for a model of Llama's architecture that it read from a GGUF file. Every byte is a token, so there is nothing
 * to fall back from; llama.cpp's converter would take the vocabulary for SentencePiece's.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The file that this is about. */
export const VOCABULARY = "tokenizer.json";
const SIGNS = ['"byte_fallback": true', '"byte_fallback":true'];

/** Whether a tokenizer.json falls back to tokens of bytes, as SentencePiece's vocabularies do. */
export function fallsBack(folder: string): boolean {
  const file = join(folder, VOCABULARY);
  if (!existsSync(file)) return false;
  // Parsing megabytes at every start would be slower than this search.
  const text = readFileSync(file);
  return SIGNS.some((sign) => text.includes(sign));
}

interface Part {
  readonly type?: unknown;
  readonly pretokenizers?: readonly Part[];
}
interface TokenizerFile {
  readonly model?: { readonly type?: unknown; readonly vocab?: object; readonly byte_fallback?: unknown };
  readonly pre_tokenizer?: Part | null;
}

const isByteLevel = (part: Part | null | undefined): boolean =>
  part?.type === "ByteLevel" || (Array.isArray(part?.pretokenizers) && part.pretokenizers.some(isByteLevel));

/** Content of tokenizer.json without a fallback that nothing needs; undefined where there is none. */
export function withoutFallback(folder: string): string | undefined {
  if (!fallsBack(folder)) return undefined;
  let tokenizer: TokenizerFile | null;
  try {
    tokenizer = JSON.parse(readFileSync(join(folder, VOCABULARY), "utf8"));
  } catch {
    // The converter says what is wrong with it.
    return undefined;
  }
  const { model, pre_tokenizer } = tokenizer ?? {};
  if (model?.type !== "BPE" || !isByteLevel(pre_tokenizer) || "<0x00>" in (model.vocab ?? {})) return undefined;
  return JSON.stringify({ ...tokenizer, model: { ...model, byte_fallback: false } });
}
