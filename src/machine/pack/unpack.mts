/**
 * Unpacks hone on a machine without a network. This file is a program of its own too: compiled, it lies in each pack. It
 * imports Node's own modules alone, and runs the system's tar.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, existsSync, readdirSync, readFileSync, realpathSync, statfsSync, statSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";

/** One line for people; anything else that is thrown is a defect. */
export class UnpackError extends Error {}

export const MANIFEST = "hone-pack.json";
export const FORMAT = 1;
/** Where hone's folder lies in what is unpacked. */
export const INSIDE = "node_modules/@hone-rl/hone";

/** What a pack holds, and what the machine must be that it is for. */
export interface Manifest {
  readonly format: number;
  readonly target: string;
  readonly hone: string;
  readonly platform: string;
  readonly arch: string;
  /** `abi` is that of compiled modules. */
  readonly node: { readonly abi: string; readonly version: string };
  /** The oldest glibc on which all that is compiled runs. */
  readonly glibc: string;
  /** The Python packages are for this version: "3.11". */
  readonly python: string;
  /** The oldest NVIDIA driver that runs it; null for targets without CUDA. */
  readonly cuda: { readonly major: number; readonly driver: number } | null;
  /** How `--model` names them. */
  readonly models: readonly string[];
  /** Bytes on the disk, and number of files and links. */
  readonly unpacked: { readonly bytes: number; readonly entries: number };
  /** In the order in which they make up one tar archive. */
  readonly parts: readonly string[];
  readonly files: Readonly<Record<string, { readonly sha256: string; readonly bytes: number }>>;
}

/** The machine that a pack is unpacked on. */
export interface Here {
  readonly platform: string;
  readonly arch: string;
  readonly abi: string;
  readonly node: string;
  /** Undefined where another C library is used. */
  readonly glibc: string | undefined;
  /** Versions of Python that can make environments, "3.11". */
  readonly pythons: readonly string[];
  /** Version of NVIDIA's driver; undefined without one. */
  readonly driver: string | undefined;
}

export interface UnpackIo {
  readonly log: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** The machine; replaced in tests. */
  readonly here?: Here;
}

const outputOf = (program: string, ...args: string[]) => {
  const { status, stdout } = spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return status === 0 ? stdout.trim() : "";
};

function thisMachine(python: string): Here {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  const asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])";
  const kernel = "/proc/driver/nvidia/version";
  const said = existsSync(kernel) ? readFileSync(kernel, "utf8") : "";
  return {
    platform: process.platform,
    arch: process.arch,
    abi: process.versions.modules,
    node: process.versions.node,
    glibc: report.header?.glibcVersionRuntime,
    pythons: ["python3", `python${python}`].map((name) => outputOf(name, "-I", "-c", asked)).filter(Boolean),
    driver:
      outputOf("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0] ||
      /\s(\d{3,}\.\d+(?:\.\d+)*)\s/.exec(said)?.[1],
  };
}

const isText = (value: unknown): value is string => typeof value === "string" && /^\P{Cc}*$/u.test(value);
const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
/** A file of the pack's own folder. */
const isName = (value: unknown) => typeof value === "string" && /^\w[\w.+-]*$/.test(value);
const isVersion = (value: unknown) => typeof value === "string" && /^\d+(\.\d+)+$/.test(value);
const fieldsOf = (value: unknown) =>
  (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;

/**
 * Whether a list says what {@link Manifest} does. A program is run by its Python's name and files are opened by its parts'
 * names before anything in the pack was checked.
 */
function isManifest(value: unknown): value is Manifest {
  const { target, hone, platform, arch, node, glibc, python, cuda, models, unpacked, parts, files } = fieldsOf(value);
  const [{ abi, version }, { bytes, entries }, { major, driver }] = [node, unpacked, cuda].map(fieldsOf) as [
    Record<string, unknown>,
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  return (
    [target, hone, platform, arch, abi, version].every(isText) &&
    [glibc, python].every(isVersion) &&
    (cuda === null || (isCount(major) && isCount(driver))) &&
    [bytes, entries].every(isCount) &&
    Array.isArray(models) &&
    models.every(isText) &&
    Array.isArray(parts) &&
    parts.every(isName) &&
    Object.values(fieldsOf(files)).every((file) => isText(fieldsOf(file).sha256) && isCount(fieldsOf(file).bytes))
  );
}

export function readManifest(folder: string): Manifest {
  const file = join(folder, MANIFEST);
  if (!existsSync(file)) throw new UnpackError(`${folder} is no pack of hone: it has no ${MANIFEST}`);
  let manifest: unknown;
  try {
    manifest = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    throw new UnpackError(`${file} is damaged: it is no JSON; copy it again`);
  }
  if (fieldsOf(manifest).format !== FORMAT) {
    throw new UnpackError(`${file} is of another version of hone; unpack it with the unpack.mjs beside it`);
  }
  if (!isManifest(manifest)) throw new UnpackError(`${file} is damaged: it describes no pack; copy it again`);
  return manifest;
}

/** Compares "2.9" and "2.36" by their numbers. */
const isOlder = (version: string, than: string) => version.localeCompare(than, "en", { numeric: true }) < 0;

/** @throws UnpackError naming what this machine lacks */
export function checkMachine(manifest: Manifest, here: Here): void {
  const { target, platform, arch, node, glibc, python, cuda } = manifest;
  const refuse = (why: string) => new UnpackError(`this pack is for ${target}: ${why}`);
  if (here.platform !== platform || here.arch !== arch) {
    throw refuse(`it needs ${platform} on ${arch}, and this machine is ${here.platform} on ${here.arch}`);
  }
  if (here.abi !== node.abi) {
    const major = node.version.split(".")[0];
    throw refuse(`it was packed with Node ${node.version} and runs on Node ${major}; this is Node ${here.node}`);
  }
  if (here.glibc === undefined) throw refuse(`it needs glibc ${glibc}, and this system has another C library`);
  if (isOlder(here.glibc, glibc)) throw refuse(`it needs glibc ${glibc} or newer, and this system has ${here.glibc}`);
  if (!here.pythons.includes(python)) {
    const there = here.pythons.length > 0 ? `this machine has ${here.pythons.join(", ")}` : "none was found";
    throw refuse(`it needs Python ${python} with its module venv, and ${there}; install it, or pack with --python`);
  }
  if (cuda && here.driver !== undefined && Number.parseInt(here.driver, 10) < cuda.driver) {
    throw refuse(
      `CUDA ${cuda.major} needs NVIDIA's driver ${cuda.driver} or newer, and this machine has ${here.driver}; pack for another CUDA, or install that driver`,
    );
  }
}

/** @throws UnpackError naming the first part that is missing or damaged */
async function checkParts(folder: string, { parts, files }: Manifest, io: UnpackIo): Promise<void> {
  const lost = parts.filter((name) => !existsSync(join(folder, name)));
  if (lost.length > 0) {
    throw new UnpackError(`${lost.join(", ")} missing in ${folder}: a pack of ${parts.length} parts; copy them there`);
  }
  for (const name of parts) {
    const { sha256, bytes } = files[name] ?? { sha256: "", bytes: -1 };
    const there = statSync(join(folder, name)).size;
    const damaged = (how: string) => new UnpackError(`${name} is damaged (${how}); copy it again`);
    if (there !== bytes) throw damaged(`it has ${there} bytes in place of ${bytes}`);
    io.log(`checking ${name}`);
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(join(folder, name), { highWaterMark: 1 << 20 })) {
      io.signal?.throwIfAborted();
      hash.update(chunk as Buffer);
    }
    if (hash.digest("hex") !== sha256) throw damaged("its SHA-256 is not the one of the list");
  }
}

const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;

/** Room of a file and its name besides its bytes: a block of the file system. */
const BLOCK = 4096;

function needDisk(folder: string, { unpacked }: Manifest): void {
  const { bavail, bsize } = statfsSync(folder);
  const needed = unpacked.bytes + unpacked.entries * BLOCK;
  if (bavail * bsize >= needed) return;
  throw new UnpackError(
    `unpacking needs ${gigabytes(needed)} of free disk in ${folder}, which has ${gigabytes(bavail * bsize)}; free some, or give --into on a larger disk`,
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Drops what was left beside a place where an earlier attempt was killed. */
export async function removeLeftovers(into: string): Promise<void> {
  const start = `.${basename(into)}.`;
  for (const name of readdirSync(dirname(into))) {
    const pid = name.startsWith(start) ? /^(\d+)\.(part|old)$/.exec(name.slice(start.length))?.[1] : undefined;
    if (pid !== undefined && !isAlive(Number(pid)))
      await rm(join(dirname(into), name), { recursive: true, force: true });
  }
}

/** @throws UnpackError when something is there */
function checkPlace(into: string): void {
  if (!existsSync(into) || (statSync(into).isDirectory() && readdirSync(into).length === 0)) return;
  throw new UnpackError(`${into} is there already, and nothing is overwritten: give another folder with --into`);
}

/** Why tar failed, by its first error: a notice may stand before it, and its last line only says that there were errors. */
function tarFailure(into: string, killedBy: string | null, messages: string): UnpackError {
  const lines = messages.split("\n").filter((line) => line && !line.startsWith("tar: Removing leading"));
  const [first = `it was ended by ${killedBy}`] = lines;
  if (killedBy === "SIGXFSZ" || /No space left on device|quota exceeded|File too large/i.test(messages)) {
    return new UnpackError(
      `the disk filled up, or a limit was reached, while hone was unpacked into ${into}; free some space, or give another --into`,
    );
  }
  return new UnpackError(`tar cannot unpack the parts: ${first.replace(/^tar: /, "")}`);
}

/** tar ended before all was written to it: it has failed, or needs no zeros behind the archive's end. */
const endedEarly = (error: Error) =>
  ["EPIPE", "ERR_STREAM_PREMATURE_CLOSE"].includes((error as NodeJS.ErrnoException).code ?? "");

/** Gives the parts, one after the other, to tar, which writes into `draft`. */
async function extract(parts: readonly string[], draft: string, into: string, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const tar = spawn("tar", ["-x", "-o", "-C", draft, "-f", "-"], {
    stdio: ["pipe", "ignore", "pipe"],
    env: { ...process.env, LC_ALL: "C" },
  });
  let messages = "";
  tar.stderr.setEncoding("utf8").on("data", (text: string) => {
    messages += text;
  });
  const read = async function* () {
    for (const part of parts) yield* createReadStream(part, { highWaterMark: 1 << 20 });
  };
  const failed = pipeline(read, tar.stdin, { signal }).then(
    () => undefined,
    (error: Error) => {
      // tar then ends by itself, but for what is not its fault: a part that cannot be read, an end that was asked for.
      if (!endedEarly(error)) tar.kill();
      return error;
    },
  );
  const [status, killedBy] = (await once(tar, "close").catch((error: Error) => {
    throw new UnpackError(`tar, which unpacks the parts, cannot be run: ${error.message}`);
  })) as [number | null, string | null];
  const error = await failed;
  signal?.throwIfAborted();
  if (error && !endedEarly(error)) throw error;
  if (status !== 0) throw tarFailure(into, killedBy, messages);
}

/**
 * Unpacks the pack in a folder. It is written beside its place and renamed at the end: a folder of that name is whole.
 *
 * @throws UnpackError in one line, with nothing left in its place
 */
export async function unpack(from: string, place: string, io: UnpackIo): Promise<Manifest & { folder: string }> {
  const folder = resolve(from);
  const into = resolve(place);
  const manifest = readManifest(folder);
  const here = io.here ?? thisMachine(manifest.python);
  checkMachine(manifest, here);
  checkPlace(into);
  await mkdir(dirname(into), { recursive: true });
  await removeLeftovers(into);
  needDisk(dirname(into), manifest);
  await checkParts(folder, manifest, io);
  if (manifest.cuda && here.driver === undefined) io.log("note: no NVIDIA driver was found on this machine");
  io.log(`unpacking ${gigabytes(manifest.unpacked.bytes)} into ${into}`);
  const draft = join(dirname(into), `.${basename(into)}.${process.pid}.part`);
  try {
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft);
    const parts = manifest.parts.map((name) => join(folder, name));
    await extract(parts, draft, into, io.signal);
    // A name is given to what is on the disk, not to what is on its way there.
    spawnSync("sync", ["-f", draft], { stdio: "ignore" });
    checkPlace(into);
    await rename(draft, into);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return { ...manifest, folder: into };
}

const USAGE = `node unpack.mjs [--into FOLDER]   unpacks hone, by default into ./hone, from the folder of this file`;

async function main(args: readonly string[]): Promise<number> {
  const [flag, given, ...more] = args;
  if (flag === "--help") {
    console.log(USAGE);
    return 0;
  }
  if ((flag !== undefined && flag !== "--into") || (flag !== undefined && given === undefined) || more.length > 0) {
    console.error(USAGE);
    return 2;
  }
  try {
    const log = (text: string) => console.log(text);
    const { folder, hone } = await unpack(dirname(fileURLToPath(import.meta.url)), given ?? "hone", { log });
    console.log(`hone ${hone} is in ${folder}. Go on with: cd ${folder} && npx --no -- hone doctor --install`);
    return 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // A system's error, such as a folder that may not be written to, is the user's to mend too.
    if (!(error instanceof UnpackError) && code === undefined) throw error;
    console.error(`unpack: ${message}`);
    return 1;
  }
}

if (process.argv[1] !== undefined && existsSync(process.argv[1])) {
  if (realpathSync(process.argv[1]) === realpathSync(fileURLToPath(import.meta.url))) {
    process.exitCode = await main(process.argv.slice(2));
  }
}
