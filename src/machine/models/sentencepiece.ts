/**
 * Models with a SentencePiece vocabulary (Llama 2, TinyLlama). llama.cpp tokenises with the pieces and scores of
 * tokenizer.model, and adds a space before text that follows a control token unless the GGUF file disables this.
 * Hugging Face's tokenizers differ here; the file gets the setting of the model's own tokenizer.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { fallsBack, withoutFallback } from "./byte-level.js";
import type { ModelIo } from "./io.js";
import { run } from "./program.js";

const PIECES = "tokenizer.model";

export const isSentencePiece = (paths: readonly string[]) => paths.includes(PIECES);

/** @throws HoneError when a folder has a SentencePiece vocabulary without the scores that llama.cpp needs */
export function needPieces(folder: string, name: string): void {
  if (existsSync(join(folder, PIECES)) || !fallsBack(folder) || withoutFallback(folder) !== undefined) return;
  throw new HoneError(
    `${name} has a SentencePiece vocabulary without ${PIECES}, so llama.cpp would cut text into other tokens.\nCopy that file from the model it was made of, or take a GGUF file`,
  );
}

/**
 * Whether the tokenizer puts a space before text that follows a control token.
 *
 * @param folder the model's files, with its SentencePiece vocabulary
 * @throws HoneError when it splits text otherwise than by its pieces
 */
export async function spaceBefore(folder: string, name: string, python: string, io: ModelIo): Promise<boolean> {
  const answers: string[] = [];
  const outcome = await run(python, ["-m", "learner.spelling", folder], io, (line) => {
    if (line.startsWith('{"space"')) answers.push(line);
  });
  const [answer] = answers;
  if (outcome.code !== 0 || answer === undefined) {
    throw new HoneError(`${name} cannot be converted: its tokenizer cannot be read: ${outcome.said.at(-1)}`);
  }
  const { space, reason } = JSON.parse(answer) as { space: boolean | null; reason?: string };
  if (space === null) throw new HoneError(`${name} cannot be converted: ${reason}`);
  return space;
}
