/**
 * Converts safetensors to GGUF, with the converter of the same llama.cpp version that loads the file. The result is
 * kept in the home folder under a name with a hash of its source, so each model is converted once.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { sha256OfFile } from "../../core/util/files.js";
import { aboutPackage, packageRoot } from "../../core/util/paths.js";
import { hone } from "../../core/util/program.js";
import { modelFingerprint, modelShape } from "../../engine/models.js";
import { checksumOfLink } from "../hub/cache.js";
import { checksumOf } from "../hub/download.js";
import { needDisk, sizeText } from "../plan/machine.js";
import { BYTES, WEIGHTS, type Weights } from "./catalogue.js";
import { type ModelIo, progressTo } from "./io.js";
import { withKnownFiles } from "./known-files.js";
import { converterPython, type FolderOptions, run, writtenOnce } from "./program.js";
import { isSentencePiece, spaceBefore } from "./sentencepiece.js";
import { aboutFiles, chatTemplateIn, readJson, weigh, weightFiles } from "./source.js";

/** Files up to this size are hashed whole; larger ones by size and time, unless they are downloads with a checksum. */
const SMALL = 32 << 20;

export interface ConversionSource {
  readonly folder: string;
  /** Files of the folder, by their names. */
  readonly paths: readonly string[];
  /** Name for messages. */
  readonly name: string;
  /** Prefix of the conversions' file names; unique for each model. */
  readonly label: string;
}

const KEY_LENGTH = 12;
const CONVERSION = new RegExp(`^(.+)-(${WEIGHTS.join("|")})-[0-9a-f]{${KEY_LENGTH}}\\.gguf$`);

/** Folder of converted models. */
const convertedFolder = (home: string) => resolve(home, "gguf");

/** The conversions that exist for this label. */
export function conversionsOf(label: string, home: string): { file: string; weights: Weights; bytes: number }[] {
  const folder = convertedFolder(home);
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const [, made, weights] = CONVERSION.exec(name) ?? [];
    if (made !== label) return [];
    const file = join(folder, name);
    return [{ file, weights: weights as Weights, bytes: statSync(file).size }];
  });
}

/**
 * Path of a conversion, whether or not it exists.
 *
 * @param key hash of its source
 */
export const conversionFile = (label: string, weights: Weights, key: string, home: string) =>
  join(convertedFolder(home), `${label}-${weights}-${key.slice(0, KEY_LENGTH)}.gguf`);

/** Hash of a conversion's source: the files' contents and the converter's version. */
async function sourceKey({ folder, paths, name }: ConversionSource): Promise<string> {
  const hash = createHash("sha256").update(llamaVersion());
  // Conversions made before sentencepiece.ts set the space options must be made again.
  if (isSentencePiece(paths)) hash.update("spaces");
  // And those that took templates in tokenizer_config.json before others.
  if (hidesTemplates(folder, paths, name)) hash.update("templates");
  for (const path of [...aboutFiles(paths), ...weightFiles(paths)].sort()) {
    hash.update(`\0${path}\0${await contentKey(join(folder, path))}`);
  }
  return hash.digest("hex");
}

/** Whether tokenizer_config.json has other chat templates than those that the model is given. */
function hidesTemplates(folder: string, paths: readonly string[], name: string): boolean {
  const file = "tokenizer_config.json";
  const field = paths.includes(file) ? readJson(folder, file, name).chat_template : undefined;
  return Boolean(field) && JSON.stringify(field) !== JSON.stringify(chatTemplateIn(folder, name));
}

/** Identifies a file's content: its checksum, or what changes with it. */
export async function contentKey(file: string): Promise<string> {
  const checksum = checksumOfLink(file);
  if (checksum !== undefined) return checksum;
  const { size, mtimeMs } = statSync(file);
  // Hashing large weights at each start would take longer than loading them.
  return size <= SMALL ? await sha256OfFile(file) : `${modelFingerprint(file)} ${mtimeMs}`;
}

/** The version of node-llama-cpp, which contains llama.cpp. */
const llamaVersion = () => `node-llama-cpp ${aboutPackage().dependencies["node-llama-cpp"]}`;

export type ConversionOptions = FolderOptions & { readonly weights: Weights };

/**
 * Returns the GGUF file of a model in Hugging Face format, converting it if needed.
 * @throws HoneError when the source is damaged, the disk is too small, or llama.cpp cannot convert it
 */
export async function converted(source: ConversionSource, options: ConversionOptions, io: ModelIo): Promise<string> {
  const { weights, home } = options;
  const { name } = source;
  const target = conversionFile(source.label, weights, await sourceKey(source), home);
  return await madeOnce(target, name, io, async (part) => {
    const parameters = weigh(source.folder, source.paths, name);
    await checkDownloads(source);
    needDiskFor(name, target, parameters * BYTES[weights]);
    const python = await converterPython(options, io);
    io.log(`converting ${name} to GGUF with ${weights} weights, once`);
    const llama = await llamaSource(io);
    const aside = `${target}.${process.pid}.source.part`;
    const outcome = await withKnownFiles(source, aside, async ({ folder, setTokenizer }) => {
      if (isSentencePiece(source.paths)) {
        setTokenizer({ add_prefix_space: await spaceBefore(folder, name, python, io) });
      }
      const what = ["--outfile", part, "--outtype", weights, "--model-name", basename(name)];
      const args = ["-m", "learner.convert", join(llama, "convert_hf_to_gguf.py"), folder, ...what];
      return await runWriting(python, args, io, `converting ${name}`);
    });
    if (outcome.code !== 0) throw conversionError(`${name} cannot be converted by llama.cpp`, name, outcome.said);
  });
}

/**
 * The model file `target`, made where it is missing as by {@link writtenOnce}.
 *
 * @param name of the model, for messages
 */
export const madeOnce = (target: string, name: string, io: ModelIo, write: (part: string) => Promise<void>) =>
  writtenOnce(target, "fetches or converts a model", io, async (part) => {
    await write(part);
    // Reads the whole header, so that an unreadable file is not put in place.
    await modelShape(part);
    io.log(`${name} is ready: ${target} (${sizeText(statSync(part).size)})`);
  });

/** Runs a program that writes a model, and reports how far it is. */
export function runWriting(python: string, args: readonly string[], io: ModelIo, doing: string) {
  const update = progressTo(io);
  return run(python, args, io, (line) => {
    const percent = /Writing:\s+(\d+)%/.exec(line)?.[1];
    if (percent !== undefined) update(() => `${doing} ${percent} %`);
  });
}

/** Checks downloads against the checksums in their names, once, before conversion. */
async function checkDownloads({ folder, paths, name }: ConversionSource): Promise<void> {
  for (const path of [...aboutFiles(paths), ...weightFiles(paths)]) {
    const file = join(folder, path);
    const checksum = checksumOfLink(file);
    if (checksum === undefined || (await checksumOf(file, checksum)) === checksum) continue;
    throw new HoneError(
      `${path} of ${name} is damaged (wrong checksum): \`${hone("models")} remove ${name}\`, then download it again (${file})`,
    );
  }
}

/** @throws HoneError when the disk of the new file has less than this free */
export const needDiskFor = (name: string, target: string, bytes: number) =>
  needDisk(dirname(target), bytes, `converting ${name}`, "set --home to a folder of a larger disk");

/** The source of llama.cpp that node-llama-cpp contains. */
async function llamaSource(io: ModelIo): Promise<string> {
  const lines: string[] = [];
  const outcome = await run(process.execPath, [join(packageRoot, "scripts/llama-source.mjs")], io, (line) =>
    lines.push(line),
  );
  if (outcome.code !== 0) throw new HoneError(outcome.said.at(-1) ?? "llama.cpp's source could not be unpacked");
  return lines.at(-1) as string;
}

/**
 * The last line of a traceback is the reason; llama.cpp's messages about tokenizers are put in other words.
 *
 * @param failure what could not be done, in words
 */
export function conversionError(failure: string, name: string, said: readonly string[]): HoneError {
  const text = said.join("\n");
  if (/No space left on device/.test(text)) {
    return new HoneError(`the disk filled up while ${name} was converted; free some space and start again`);
  }
  if (/pre-tokenizer was not recognized|get_vocab_base_pre/.test(text)) {
    return new HoneError(
      `${name} cannot be converted: llama.cpp does not know its pre-tokenizer, so its text would be cut into other tokens; give a GGUF file of it`,
    );
  }
  if (/assert max\(.*\) < vocab_size/.test(text)) {
    return new HoneError(
      `${name} cannot be converted: its tokenizer has tokens beyond vocab_size of config.json, for which it has no embeddings; give it the tokenizer that it was trained with, or resize its embeddings`,
    );
  }
  const reason = said.findLast((line) => /^\w*(Error|Exception|KeyError|ValueError)\b/.test(line)) ?? said.at(-1) ?? "";
  return new HoneError(`${failure}: ${reason.trim().slice(0, 300)}`);
}
