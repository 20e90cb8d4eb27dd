/** A file out of a wheel of a package index, fetched with pip's own configuration: index, mirror, proxy, cache. */
import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { type OnLine, run } from "../../core/util/run.js";
import { whyNotFetched } from "./failure.js";
import { PIP } from "./install.js";
import { findPython } from "./interpreter.js";

/** A file in a wheel. */
export interface WheelPart {
  /** The package. */
  readonly name: string;
  readonly version: string;
  /** Of the wheel, in hexadecimal digits. */
  readonly sha256: string;
  /** Path in the wheel. */
  readonly file: string;
}

export interface WheelFetching {
  /** A Python with pip; by default one of this machine. */
  readonly python?: string | undefined;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Downloads a wheel into the empty folder `aside`, unpacks it there, and moves the file to `target`.
 *
 * @throws HoneError when there is no Python with pip, the index has no such wheel, or the wheel no such file
 */
export async function fileOfWheel(
  { name, version, sha256, file }: WheelPart,
  target: string,
  aside: string,
  { python = undefined, onProgress, signal }: WheelFetching,
): Promise<void> {
  const named = `${name} ${version}`;
  const interpreter = python ?? (await findPython());
  const call = async (...args: string[]) => {
    const onLine = (line: string) => {
      if (/^Downloading .*\(\d+(\.\d+)? (MB|GB)\)/.test(line)) onProgress(line);
    };
    const done = await run(interpreter, args, { onLine, signal });
    signal?.throwIfAborted();
    return done;
  };
  if ((await call(...PIP, "--version")).code !== 0) {
    throw new HoneError(
      `${named} is fetched with pip, which ${interpreter} does not have: install it (Debian, Ubuntu: apt install python3-pip), or give --python`,
    );
  }
  const list = join(aside, "requirements.txt");
  writeFileSync(list, `${name}==${version} --hash=sha256:${sha256}\n`);
  const download = ["download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--require-hashes"];
  const fetched = await call(...PIP, ...download, "--dest", aside, "-r", list);
  if (fetched.code !== 0) throw new HoneError(why(named, `${fetched.stderr}\n${fetched.stdout}`));
  const wheel = readdirSync(aside).find((one) => one.endsWith(".whl"));
  if (wheel === undefined) throw new HoneError(`pip has fetched no wheel of ${name}`);
  const unpacked = await call("-m", "zipfile", "-e", join(aside, wheel), aside);
  if (unpacked.code !== 0) throw new HoneError(why(named, `${unpacked.stdout}\n${unpacked.stderr}`));
  if (!existsSync(join(aside, file))) throw new HoneError(`the wheel of ${named} has no file ${file}`);
  renameSync(join(aside, file), target);
}

function why(named: string, output: string): string {
  const none = `the package index has no wheel of ${named} for this machine; pip's configuration names the index (PIP_INDEX_URL)`;
  return whyNotFetched(named, output, /No matching distribution found/.test(output) ? none : undefined);
}
