/** The bytes of tokens, from a model file's header: for readers of rollouts, which need no engine. */
import { header } from "./models.js";

/** Types of tokens in GGUF (llama.cpp's `llama_token_type`) whose text is not written in the vocabulary's alphabet. */
const CONTROL = 3;
const USER_DEFINED = 4;

/**
 * GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from U+0100 on, in order
 * (`bytes_to_unicode` in openai/gpt-2, src/encoder.py).
 */
function byteOfCharacter(): Map<string, number> {
  const prints = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let other = 256;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(prints(byte) ? byte : other++), byte] as const),
  );
}

const asBytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");

/**
 * @returns bytes of a token, each as one character (U+0000 to U+00FF); undefined for ids that the vocabulary lacks
 * @throws HoneError when the file is no GGUF model
 */
export async function tokenBytes(file: string): Promise<(id: number) => string | undefined> {
  const { values } = header(file);
  const array = (name: string) => {
    const value = values.get(`tokenizer.ggml.${name}`);
    return typeof value === "object" ? value : undefined;
  };
  const texts = array("tokens")?.texts() ?? [];
  const types = array("token_type")?.numbers() ?? [];
  const alphabet = values.get("tokenizer.ggml.model") === "gpt2" ? byteOfCharacter() : undefined;
  return (id) => {
    const text = texts[id];
    if (text === undefined || types[id] === CONTROL || types[id] === USER_DEFINED) return text && asBytes(text);
    if (alphabet) return [...text].map((one) => String.fromCharCode(alphabet.get(one) ?? 63)).join("");
    const byte = text.match(/^<0x([0-9A-F]{2})>$/)?.[1];
    return byte ? String.fromCharCode(Number.parseInt(byte, 16)) : asBytes(text.replaceAll("▁", " "));
  };
}
