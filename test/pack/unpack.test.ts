/** Unpacking: what comes out is what went in, whole or not at all; what is wrong is one line that names it. */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import type { Entry } from "../../src/machine/pack/archive.js";
import { type Here, MANIFEST, type Manifest, UnpackError, unpack } from "../../src/machine/pack/unpack.mjs";
import { CommandLine } from "../support/command-line.js";
import { here, smallPack } from "./support.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-unpack-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const packed = () => join(folder, "pack");
const into = () => join(folder, "out/hone");
const LONG = `node_modules/${"a-very-long-name-of-a-folder/".repeat(8)}readme-ü.md`;
const random = new Random("unpack");
const noise = Buffer.from(Array.from({ length: 7000 }, () => random.integer(0, 256)));

/** Files of several parts, one with a long name, an empty one, a program, a link. */
function entries(): Entry[] {
  const file = join(folder, "noise.bin");
  writeFileSync(file, noise);
  utimesSync(file, 1_600_000_000, 1_600_000_000);
  return [
    { path: "package.json", text: '{"name":"ü"}\n' },
    { path: LONG, text: "long\n" },
    { path: "node_modules/a/noise.bin", file },
    { path: "node_modules/a/empty", text: "" },
    { path: "node_modules/a/cli.js", text: "#!/bin/sh\necho runs\n", executable: true },
    { path: "node_modules/.bin/a", link: "../a/cli.js" },
  ];
}

const unpacking = (given: Partial<Here> = {}) =>
  unpack(packed(), into(), { log: () => undefined, here: { ...here, ...given } });

/** One line, and nothing in the place or beside it. */
async function refused(work: Promise<unknown>): Promise<string> {
  const error = await work.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UnpackError);
  const { message } = error as Error;
  expect(message).not.toContain("\n");
  if (existsSync(join(folder, "out"))) expect(readdirSync(join(folder, "out"))).toEqual([]);
  return message;
}

describe("a pack", () => {
  it("gives the files that went in: bytes, modes, times, links, long names, across parts", async () => {
    const { parts } = await smallPack(packed(), entries());
    expect(parts.length).toBeGreaterThan(3);
    const done = await unpacking();
    expect(done.folder).toBe(into());
    const text = (path: string) => readFileSync(join(into(), path), "utf8");
    expect(text("package.json")).toBe('{"name":"ü"}\n');
    expect(text(LONG)).toBe("long\n");
    expect(text("node_modules/a/empty")).toBe("");
    expect(readFileSync(join(into(), "node_modules/a/noise.bin")).equals(noise)).toBe(true);
    expect(statSync(join(into(), "node_modules/a/noise.bin")).mtimeMs).toBe(1_600_000_000_000);
    expect(readlinkSync(join(into(), "node_modules/.bin/a"))).toBe("../a/cli.js");
    expect(spawnSync(join(into(), "node_modules/.bin/a"), { encoding: "utf8" }).stdout).toBe("runs\n");
    expect(statSync(join(into(), "package.json")).mode & 0o111).toBe(0);
    // Nothing is left beside it.
    expect(readdirSync(join(folder, "out"))).toEqual(["hone"]);
  });

  it("is what any tar reads, its parts one after the other", async () => {
    const { parts } = await smallPack(packed(), entries());
    const whole = Buffer.concat(parts.map((name) => readFileSync(join(packed(), name))));
    const { status, stdout } = spawnSync("tar", ["-xOf", "-", "node_modules/a/noise.bin"], { input: whole });
    expect([status, stdout.equals(noise)]).toEqual([0, true]);
  });

  it("is refused on another machine, by what that lacks", async () => {
    const cuda = { target: "linux-x64-cuda13", cuda: { major: 13, driver: 580 } };
    const cases: [Partial<Manifest>, Partial<Here>, RegExp][] = [
      [{}, { arch: "arm64" }, /is for linux-x64-cpu: it needs linux on x64, and this machine is linux on arm64/],
      [{}, { platform: "darwin" }, /needs linux on x64, and this machine is darwin on x64/],
      [{}, { abi: "127", node: "22.1.0" }, /packed with Node 20\.20\.2 and runs on Node 20; this is Node 22\.1\.0/],
      [{ glibc: "2.34" }, { glibc: "2.9" }, /needs glibc 2\.34 or newer, and this system has 2\.9/],
      [{}, { glibc: undefined }, /needs glibc 2\.28, and this system has another C library/],
      [{}, { pythons: ["3.12", "3.10"] }, /needs Python 3\.11 with its module venv, and this machine has 3\.12, 3\.10/],
      [{}, { pythons: [] }, /needs Python 3\.11 with its module venv, and none was found/],
      [
        cuda,
        { driver: "550.54.15" },
        /linux-x64-cuda13: CUDA 13 needs NVIDIA's driver 580 or newer, and .* has 550\.54\.15/,
      ],
    ];
    for (const [pack, machine, message] of cases) {
      await smallPack(packed(), entries(), pack);
      expect(await refused(unpacking(machine))).toMatch(message);
    }
    await smallPack(packed(), entries(), cuda);
    const logged: string[] = [];
    await unpack(packed(), into(), { log: (line) => logged.push(line), here });
    // A machine without a card may be one whose driver comes later.
    expect(logged).toContain("note: no NVIDIA driver was found on this machine");
  });

  it("takes a newer glibc and the oldest driver", async () => {
    await smallPack(packed(), entries(), { cuda: { major: 12, driver: 525 }, glibc: "2.4" });
    await unpacking({ driver: "525.60.13", glibc: "2.28" });
    expect(existsSync(into())).toBe(true);
  });
});

describe("a part", () => {
  it.each([
    ["that is missing is named", (part: string) => rmSync(part), /part-002 missing in .*: a pack of \d+ parts; copy/],
    [
      "that was cut off",
      (part: string) => truncateSync(part, 1234),
      /part-002 is damaged \(it has 1234 bytes in place of 3000\)/,
    ],
    [
      "with a wrong byte",
      (part: string) => {
        const bytes = readFileSync(part);
        bytes[77] = (bytes[77] as number) ^ 1;
        writeFileSync(part, bytes);
      },
      /part-002 is damaged \(its SHA-256 is not the one of the list\); copy it again/,
    ],
  ] as const)("%s", async (_, harm, message) => {
    await smallPack(packed(), entries());
    harm(join(packed(), "hone-small.part-002"));
    expect(await refused(unpacking())).toMatch(message);
  });

  it("may not lead out of the folder", async () => {
    await smallPack(packed(), [{ path: "../evil", text: "x" }]);
    expect(await refused(unpacking())).toMatch(
      /^tar cannot unpack the parts: \.\.\/evil: Member name contains '\.\.'$/,
    );
    expect(existsSync(join(folder, "evil"))).toBe(false);
  });
});

describe("the list of a pack", () => {
  it("must be there, whole, and of this version", async () => {
    mkdirSync(packed());
    expect(await refused(unpacking())).toMatch(/is no pack of hone: it has no hone-pack\.json/);
    await smallPack(packed(), entries(), { format: 2 });
    expect(await refused(unpacking())).toMatch(
      /is of another version of hone; unpack it with the unpack\.mjs beside it/,
    );
    truncateSync(join(packed(), MANIFEST), 100);
    expect(await refused(unpacking())).toMatch(/hone-pack\.json is damaged: it is no JSON/);
  });

  it("names no program to run and no file elsewhere", async () => {
    const program = join(folder, "program");
    writeFileSync(program, `#!/bin/sh\ntouch ${join(folder, "ran")}\n`, { mode: 0o755 });
    mkdirSync(join(folder, "python"));
    const up = "/..".repeat(40);
    const lists = [
      { python: `${up}${program}` },
      { python: ["3.11"] },
      { python: "3.11\u001b[2J" },
      { parts: ["../noise.bin"] },
      { parts: "hone-small.part-001" },
      { files: { "hone-small.part-001": null } },
      { node: null },
      { cuda: "13" },
      { hone: "1.0\u009b2J" },
    ] as unknown as Partial<Manifest>[];
    for (const list of lists) {
      await smallPack(packed(), entries(), list);
      // As on a machine that is asked: `here` is not given.
      const work = unpack(packed(), into(), { log: () => undefined });
      expect(await refused(work)).toMatch(/hone-pack\.json is damaged: it describes no pack; copy it again$/);
    }
    expect(existsSync(join(folder, "ran"))).toBe(false);
    for (const nothing of ["null", "[]", '"x"']) {
      writeFileSync(join(packed(), MANIFEST), nothing);
      expect(await refused(unpacking())).toMatch(/is of another version of hone/);
    }
  });

  it("that lacks a part gives half a file to nobody", async () => {
    const manifest = await smallPack(packed(), entries());
    writeFileSync(join(packed(), MANIFEST), JSON.stringify({ ...manifest, parts: manifest.parts.slice(0, 2) }));
    expect(await refused(unpacking())).toMatch(/^tar cannot unpack the parts: Unexpected EOF in archive$/);
  });
});

describe("the place", () => {
  it("is never overwritten; an empty folder is taken", async () => {
    await smallPack(packed(), entries());
    mkdirSync(into(), { recursive: true });
    await unpacking();
    appendFileSync(join(into(), "package.json"), "mine");
    await expect(unpacking()).rejects.toThrow(/is there already, and nothing is overwritten: give another folder/);
    expect(readFileSync(join(into(), "package.json"), "utf8")).toContain("mine");
  });

  it("is cleared of what a killed attempt left beside it, but not of one that runs", async () => {
    await smallPack(packed(), entries());
    // Above any that Linux gives: the number of a process that has ended may be another's by now.
    const dead = 2 ** 22 + 1;
    for (const pid of [dead, process.ppid]) mkdirSync(join(folder, "out", `.hone.${pid}.part`), { recursive: true });
    await unpacking();
    expect(readdirSync(join(folder, "out")).sort()).toEqual([`.hone.${process.ppid}.part`, "hone"]);
  });

  it("stays empty when the work is ended", async () => {
    await smallPack(packed(), entries());
    const ended = new AbortController();
    const log = (line: string) => void (line.startsWith("unpacking") && ended.abort(new UnpackError("interrupted")));
    expect(await refused(unpack(packed(), into(), { log, here, signal: ended.signal }))).toBe("interrupted");
  });

  it("is refused before the work on a disk that is too small", async () => {
    await smallPack(packed(), entries(), { unpacked: { bytes: 1e18, entries: 6 } });
    expect(await refused(unpacking())).toMatch(
      /unpacking needs 1000000000\.00 GB of free disk in .*out, which has .* GB; free some, or give --into/,
    );
  });
});

describe("unpack.mjs", () => {
  const node = { abi: process.versions.modules, version: process.versions.node };
  const python = spawnSync("python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"], {
    encoding: "utf8",
  });
  const mine = { node, python: python.stdout.trim(), glibc: "2.4", platform: process.platform, arch: process.arch };

  /** The program in the pack's folder, with nothing of hone beside it. */
  async function standalone(limit: string, ...args: string[]) {
    await smallPack(packed(), entries(), mine, 3_000_000);
    copyFileSync(join(packageRoot, "dist/src/machine/pack/unpack.mjs"), join(packed(), "unpack.mjs"));
    const command = `${limit}"${process.execPath}" "${join(packed(), "unpack.mjs")}" ${args.join(" ")}`;
    const { status, stdout, stderr } = spawnSync("bash", ["-c", command], { cwd: folder, encoding: "utf8" });
    return { status, stdout, stderr };
  }

  it("needs nothing of hone, and says how to go on", async () => {
    const { status, stdout, stderr } = await standalone("", "--into", "new");
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/hone 0\.1\.0 is in .*new\. Go on with: cd .*new && npx --no -- hone doctor --install\n$/);
    expect(existsSync(join(folder, "new", LONG))).toBe(true);
  });

  it("takes no other arguments", async () => {
    for (const args of [["--out", "x"], ["--into"], ["--into", "a", "b"]]) {
      const { status, stderr } = await standalone("", ...args);
      expect([status, stderr]).toEqual([2, expect.stringMatching(/^node unpack\.mjs \[--into FOLDER\]/)]);
    }
  });

  it("leaves nothing when the disk fills up", async () => {
    // Of blocks of 1024 bytes: a file of 7000 bytes is too large.
    const { status, stderr } = await standalone("ulimit -f 4; ", "--into", "new");
    expect(stderr).toMatch(
      /^unpack: the disk filled up, or a limit was reached, while hone was unpacked into .*new; free some space/,
    );
    expect(stderr.trim()).not.toContain("\n");
    expect([status, readdirSync(folder).sort()]).toEqual([1, ["noise.bin", "pack"]]);
  });
});

describe("the commands", () => {
  const commandLine = new CommandLine();
  afterAll(() => commandLine.close());
  const hone = (...args: string[]) => commandLine.run(folder, ...args);

  it("unpack: says where hone is now, and on a machine of another kind what that lacks", async () => {
    const report = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
    const mine = {
      node: { abi: process.versions.modules, version: process.versions.node },
      python: here.pythons[0] as string,
      glibc: "2.4",
      platform: process.platform,
      arch: process.arch,
    };
    await smallPack(packed(), entries(), { ...mine, glibc: "2.999" });
    const refusal = await hone("unpack", packed(), "--into", "new", "--json");
    expect([refusal.status, existsSync(join(folder, "new"))]).toEqual([1, false]);
    expect(refusal.stderr.trim()).toBe(
      `hone: this pack is for linux-x64-cpu: it needs glibc 2.999 or newer, and this system has ${report.header.glibcVersionRuntime}`,
    );
    const asked = spawnSync("python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"], {
      encoding: "utf8",
    });
    await smallPack(packed(), entries(), { ...mine, python: asked.stdout.trim() });
    const done = await hone("unpack", packed(), "--into", "new", "--json");
    expect(done.status, done.stderr).toBe(0);
    const about = { folder: join(folder, "new"), target: "linux-x64-cpu", hone: "0.1.0", models: [] };
    expect(JSON.parse(done.stdout.trimEnd().split("\n").at(-1) ?? "")).toEqual(about);
  });

  it("pack: lists its targets for one that it has not", async () => {
    const { status, stderr } = await hone("pack", "--for", "linux-x64-rocm", "--out", "new");
    expect([status, stderr.trim()]).toEqual([
      2,
      'hone: --for: "linux-x64-rocm" is not accepted; give linux-x64-cpu, linux-x64-vulkan, linux-x64-cuda12, linux-x64-cuda13',
    ]);
  });
});
