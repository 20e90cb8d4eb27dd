/** Resolves a source of scenarios to files: a file, a folder of them, or a data set of the Hub. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { givenByProgram, withDefaults } from "../../core/config/config.js";
import type { ScenarioIo, Split } from "../../core/task/task.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { writeDurably } from "../../core/util/files.js";
import { downloadOptions } from "../input-options.js";
import { dataEndings } from "./rows.js";

const isData = (path: string) => dataEndings.includes(extname(path).toLowerCase());

const onHub = /^hf:([\w.-]+\/[\w.-]+)(?::(.+))?$/;

/**
 * @param source a path, or "hf:OWNER/NAME" with ":FOLDER" or ":FILE" where a data set has several parts
 * @throws UsageError when there is no such file
 * @throws HoneError when the Hub cannot be reached or refuses, or there is no readable file
 */
export async function filesOf(source: string, home: string, io: ScenarioIo): Promise<string[]> {
  if (source.startsWith("hf:")) return filesOfHub(source, home, io);
  const stat = statSync(source, { throwIfNoEntry: false });
  if (!stat) throw new UsageError(`--scenarios: there is no file ${source}`);
  if (!stat.isDirectory()) return [source];
  const files = readdirSync(source).filter(isData).sort();
  if (files.length > 0) return files.map((name) => join(source, name));
  throw new HoneError(`${source} has no files that end in ${dataEndings.join(", ")}`);
}

async function filesOfHub(source: string, home: string, { hub, log, signal, alive }: ScenarioIo): Promise<string[]> {
  const [, id, part] = onHub.exec(source) ?? [];
  if (id === undefined) {
    throw new UsageError(`--scenarios ${source}: a data set is written hf:OWNER/NAME, or hf:OWNER/NAME:FOLDER`);
  }
  // A resumed run keeps the commit that it started with, without asking the Hub.
  const note = join(home, "datasets", `${source.replace(/[^\w.-]+/g, "--")}.json`);
  const noted = existsSync(note) ? (JSON.parse(readFileSync(note, "utf8")) as string[]) : undefined;
  if (noted?.every((file) => existsSync(file))) return noted;
  const [{ fetchDataset }, { hubOptionsOf }] = await Promise.all([
    import("../hub/dataset.js"),
    import("../hub/hub-options.js"),
  ]);
  const config = hub ?? withDefaults(downloadOptions, await givenByProgram({}, downloadOptions));
  const options = { ...hubOptionsOf(config), log, signal, onProgress: alive };
  const name = `files${part ? ` in ${part}` : ""} that end in ${dataEndings.join(", ")}`;
  const files = await fetchDataset(id, options, { name, choose: (paths) => partOf(id, paths, part) });
  mkdirSync(dirname(note), { recursive: true });
  writeDurably(note, JSON.stringify(files));
  return files;
}

function partOf(id: string, all: readonly string[], part: string | undefined): string[] {
  const wanted = part?.replace(/\/$/, "");
  const within = all.filter((path) => isData(path) && (!wanted || path === wanted || path.startsWith(`${wanted}/`)));
  // Some data sets have the same rows in several formats.
  const parquet = within.filter((path) => path.toLowerCase().endsWith(".parquet"));
  const paths = parquet.length > 0 ? parquet : within;
  // "main/train-00000-of-00001.parquet" belongs to the configuration "main", "data/train-..." to the only one.
  const folders = [...new Set(paths.map((path) => (path.includes("/") ? (path.split("/")[0] as string) : "")))];
  if (wanted === undefined && folders.length > 1 && !folders.every((name) => splitOfWord(name))) {
    const names = folders.map((name) => name || "files without a folder").join(", ");
    throw new HoneError(`${id} has several parts (${names}); name one: hf:${id}:${folders.find(Boolean)}`);
  }
  return paths;
}

/** Words for splits in data sets; hone has one split for training and one for evaluation. */
export function splitOfWord(word: string): Split | undefined {
  if (/^train(ing)?$/i.test(word)) return "train";
  return /^(test(ing)?|val(id(ation)?)?|dev|eval)$/i.test(word) ? "test" : undefined;
}

/** The split with which the name of a file or its folder begins: `test-00000-of-00001.parquet`, `test/0000.parquet`. */
export function splitOfFile(path: string): Split | undefined {
  const word = (name: string) => splitOfWord(/^[a-z]+/i.exec(name)?.[0] ?? "");
  return word(basename(path)) ?? word(basename(dirname(path)));
}
