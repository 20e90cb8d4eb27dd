/**
 * A folder for llama.cpp's converter, with hone's choice of a model's files. transformers imports Python files of a model's
 * folder where its configuration names them and the converter lets it (`trust_remote_code`): none is there, and none is named.
 */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { removedAfter } from "../../core/util/files.js";
import { MODEL_TYPES } from "../architectures.js";
import { VOCABULARY, withoutFallback } from "./byte-level.js";
import { aboutFiles, chatTemplateIn, readJson, weightFiles } from "./source.js";

type Json = Record<string, unknown>;

const CONFIG = "config.json";
const TOKENIZER = "tokenizer_config.json";

/** Objects of config.json that the converter needs. Of others it would take the model's class or code. */
const NESTED = ["rope_scaling", "rope_parameters"];

function plainConfig(config: Json): Json {
  const plain = Object.entries(config).filter(
    ([key, value]) => typeof value !== "object" || value === null || Array.isArray(value) || NESTED.includes(key),
  );
  return { ...Object.fromEntries(plain), architectures: [MODEL_TYPES.get(String(config.model_type))?.class] };
}

export interface KnownFiles {
  readonly folder: string;
  /** Sets fields of tokenizer_config.json. */
  setTokenizer(fields: Json): void;
}

/**
 * Calls `use` with such a folder, which is removed afterwards.
 *
 * @param source a model that `checkAbout` accepts
 * @param aside a temporary folder to create for it
 */
export async function withKnownFiles<T>(
  { folder, paths, name }: { readonly folder: string; readonly paths: readonly string[]; readonly name: string },
  aside: string,
  use: (known: KnownFiles) => Promise<T>,
): Promise<T> {
  // The converter takes names of the model from the folder's own.
  const place = join(aside, basename(folder));
  using _aside = removedAfter(aside);
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  const write = (file: string, content: Json) => writeFileSync(join(place, file), JSON.stringify(content));
  for (const path of [...aboutFiles(paths), ...weightFiles(paths)]) {
    if ([CONFIG, TOKENIZER, VOCABULARY].includes(path)) continue;
    mkdirSync(dirname(join(place, path)), { recursive: true });
    symlinkSync(resolve(folder, path), join(place, path));
  }
  if (paths.includes(VOCABULARY)) {
    const vocabulary = withoutFallback(folder);
    if (vocabulary === undefined) symlinkSync(resolve(folder, VOCABULARY), join(place, VOCABULARY));
    else writeFileSync(join(place, VOCABULARY), vocabulary);
  }
  write(CONFIG, plainConfig(readJson(folder, CONFIG, name)));
  // The converter takes the templates in this file before those in others, transformers after them.
  const tokenizer = paths.includes(TOKENIZER)
    ? { ...readJson(folder, TOKENIZER, name), auto_map: undefined, chat_template: chatTemplateIn(folder, name) }
    : undefined;
  if (tokenizer) write(TOKENIZER, tokenizer);
  return await use({ folder: place, setTokenizer: (fields) => write(TOKENIZER, { ...tokenizer, ...fields }) });
}
