/**
 * llama.cpp's libraries for GPUs. Installing hone brings the CPU's alone; these are fetched when a GPU is first used, by npm
 * with the user's own configuration of it (mirror, proxy, cache), into the user's cache: once for each version of them.
 */
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import module from "node:module";
import { dirname, join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { codeOf, HoneError } from "../core/util/errors.js";
import { removedAfter } from "../core/util/files.js";
import { withLock } from "../core/util/lock.js";
import { cacheHome } from "../core/util/paths.js";
import { reinstall } from "../core/util/program.js";
import { lastLine, type OnLine, run } from "../core/util/run.js";
import { withHeartbeat } from "./heartbeat.js";

/** Of the pinned node-llama-cpp and its packages. */
export const LLAMA_VERSION = "3.22.1";

interface Library {
  /** Of the tarball, as npm writes it. */
  readonly integrity: string;
  /** Unpacked. */
  readonly megabytes: number;
}

/** The packages that are fetched, all of llama.cpp in LLAMA_VERSION. */
export const fetchedLibraries: Readonly<Record<string, Library>> = {
  "@node-llama-cpp/linux-x64-cuda": {
    integrity: "sha512-8rQCjyNNLZJUFit+YpjwlC4hwkKgOMIkB2wuycKBf8NU2O3ySKbiWZQ8aw9ku2nUTXjSnUIrE6KB88itduTBuA==",
    megabytes: 181,
  },
  "@node-llama-cpp/linux-x64-cuda-ext": {
    integrity: "sha512-4e5ajkiM2aR2WAdB/N/ACk4weEhHvOAIrzxZPsIX0xDFW5+6hhShuy1/vs88SK9NGdgAco9IyE28eYS0H1efpA==",
    megabytes: 358,
  },
  "@node-llama-cpp/linux-x64-vulkan": {
    integrity: "sha512-bBxqU+JOcBu1nb5Qj2zcMci+JByT1E8EajHvYodyNfVIPkEhXh+/HMwR1/BT7xP08YK0hks+kM8fglER0P8JEg==",
    megabytes: 71,
  },
};

/** Folder of the fetched packages: a node_modules. */
export const librariesFolder = (env: NodeJS.ProcessEnv = process.env) =>
  join(cacheHome(env), "hone", `llama-${LLAMA_VERSION}`, "node_modules");

/** Modules of the fetched packages are found by whoever imports them, after those that are installed. */
interface Hooks {
  resolve(specifier: string, context: object, next: (specifier: string, context: object) => unknown): unknown;
}

const hooksFrom = (parentURL: string): Hooks => ({
  resolve(specifier, context, next) {
    try {
      return next(specifier, context);
    } catch (error) {
      if (!specifier.startsWith("@node-llama-cpp/")) throw error;
      return next(specifier, { ...context, parentURL });
    }
  },
});

/** The same for Node 20, which has hooks of another thread alone; newer ones warn of those. */
const hookOfThread = (parentURL: string) => `
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!specifier.startsWith("@node-llama-cpp/")) throw error;
    return next(specifier, { ...context, parentURL: ${JSON.stringify(parentURL)} });
  }
}`;

let hooked = false;

/** From now on node-llama-cpp finds the fetched packages. Where there are none, no import pays for looking there. */
export function findFetched(): void {
  if (hooked || !existsSync(librariesFolder())) return;
  hooked = true;
  const inside = pathToFileURL(join(librariesFolder(), "from.js")).href;
  const { registerHooks } = module as { registerHooks?: (hooks: Hooks) => void };
  if (registerHooks) registerHooks(hooksFrom(inside));
  else module.register(`data:text/javascript,${encodeURIComponent(hookOfThread(inside))}`);
}

export interface Fetching {
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
  /** Replaced in tests. */
  readonly libraries?: Readonly<Record<string, Library>>;
}

/**
 * Fetches those of the packages that are not there. Safe to call in several processes at once.
 *
 * @param names of {@link fetchedLibraries}; others are installed with hone, and refused where they are not
 * @throws HoneError in one line; what was begun is removed
 */
export async function fetchLibraries(names: readonly string[], fetching: Fetching): Promise<void> {
  const { onProgress, signal, libraries = fetchedLibraries } = fetching;
  const folder = librariesFolder();
  const lacking = () => names.filter((name) => !existsSync(join(folder, name)));
  if (lacking().length === 0) return;
  const waiting = () => onProgress("waiting for another process that fetches llama.cpp's libraries");
  const fetchAll = async () => {
    for (const name of lacking()) {
      const library = libraries[name];
      if (!library) throw new HoneError(`${name}, llama.cpp's libraries, is not installed: run ${reinstall()}`);
      await withHeartbeat(onProgress, (onLine) => fetchOne(name, library, join(folder, name), { onLine, signal }));
    }
  };
  try {
    await withLock(join(dirname(folder), "lock"), waiting, fetchAll, signal);
  } catch (error) {
    if (codeOf(error) === "ENOSPC")
      throw new HoneError(`the disk is full: llama.cpp's libraries need space in ${folder}`);
    throw error;
  }
}

async function fetchOne(
  name: string,
  { integrity, megabytes }: Library,
  target: string,
  { onLine, signal }: { readonly onLine: OnLine; readonly signal: AbortSignal | undefined },
): Promise<void> {
  onLine(`fetching ${name} ${LLAMA_VERSION}, llama.cpp's libraries for this GPU (${megabytes} MB on disk)`);
  const aside = `${target}.part`;
  using _aside = removedAfter(aside);
  // What a killed process has left there.
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  const tarball = await packed(name, aside, signal);
  const said = await integrityOf(tarball);
  if (said !== integrity) {
    throw new HoneError(`${name} ${LLAMA_VERSION} as npm's registry gives it is not the one that hone knows (${said})`);
  }
  await unpack(tarball, join(aside, "package"));
  renameSync(join(aside, "package"), target);
}

/** The tarball, by npm. */
async function packed(name: string, folder: string, signal: AbortSignal | undefined): Promise<string> {
  const args = ["pack", `${name}@${LLAMA_VERSION}`, "--pack-destination", folder, "--loglevel", "error"];
  const { code, stderr } = await run("npm", args, { signal });
  signal?.throwIfAborted();
  const [file] = readdirSync(folder).filter((one) => one.endsWith(".tgz"));
  if (code === 0 && file !== undefined) return join(folder, file);
  const errors = stderr.split("\n").filter((line) => /^npm (error|ERR!)/.test(line));
  const why =
    code === 127 ? "npm is not installed" : (errors[1] ?? errors[0] ?? lastLine(stderr)).replace(/^npm \S+ /, "");
  throw new HoneError(
    `${name} ${LLAMA_VERSION}, llama.cpp's libraries for this GPU, cannot be fetched (${why}): go online once, name a mirror with npm_config_registry, or go on without it: --gpu off`,
  );
}

async function integrityOf(file: string): Promise<string> {
  const hash = createHash("sha512");
  await pipeline(createReadStream(file), hash);
  return `sha512-${hash.digest("base64")}`;
}

/** Files of "package/" in a tarball that was checked. */
async function unpack(tarball: string, folder: string): Promise<void> {
  const files = extract();
  const read = pipeline(createReadStream(tarball), createGunzip(), files);
  for await (const entry of files) {
    const path = join(folder, relative("package", entry.header.name));
    if (entry.header.type === "file") {
      mkdirSync(dirname(path), { recursive: true });
      await pipeline(entry, createWriteStream(path, { mode: 0o644 }));
    } else entry.resume();
  }
  await read;
}
