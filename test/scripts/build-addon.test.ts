/** Whether an installation compiles, why, and what is left of a build that failed when npm has deleted the package. */
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { platformPackage } from "../../src/core/util/binaries.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { platformFolder } from "../package/support.js";

const base = mkdtempSync(join(tmpdir(), "hone-build-addon-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** A package whose addon does not compile; hone's own headers and dependencies. */
function brokenPackage(): string {
  const folder = join(base, "package");
  for (const made of ["scripts", "native/engine", "build"]) mkdirSync(join(folder, made), { recursive: true });
  for (const shared of ["node_modules", "build/llama"]) symlinkSync(join(packageRoot, shared), join(folder, shared));
  for (const file of ["scripts/build-addon.mjs", "scripts/sources.mjs", "package.json"])
    copyFileSync(join(packageRoot, file), join(folder, file));
  const targets = [{ target_name: "hone_engine", sources: ["native/engine/port.cc"] }];
  writeFileSync(join(folder, "binding.gyp"), JSON.stringify({ targets }));
  writeFileSync(join(folder, "native/engine/port.cc"), "#error it must not compile\n");
  return folder;
}

function failedBuild(environment: Readonly<Record<string, string>>): { said: string; log: string } {
  const folder = brokenPackage();
  const script = join(folder, "scripts/build-addon.mjs");
  const env = { ...process.env, ...environment };
  const { status, stderr } = spawnSync(process.execPath, [script], { cwd: folder, env, encoding: "utf8" });
  expect(status, stderr).toBe(1);
  // As npm does.
  rmSync(folder, { recursive: true });
  return { said: stderr, log: /\(all of it: (.*)\)\n$/.exec(stderr)?.[1] ?? "" };
}

describe("a build that failed", () => {
  it("is one line with the reason, and a log that lasts", () => {
    const { said, log } = failedBuild({ XDG_CACHE_HOME: join(base, "cache") });
    expect(said).toMatch(/^hone: the engine's addon cannot be built: .*it must not compile \(all of it: .*\)\n$/m);
    expect(log).toBe(join(base, "cache/hone/addon-build.log"));
    expect(readFileSync(log, "utf8")).toContain("gyp");
  });

  it("says that npm's nodedir has the headers of another Node, where none lie beside this one", () => {
    const headers = join(base, "node-4");
    mkdirSync(join(headers, "include/node"), { recursive: true });
    writeFileSync(join(headers, "include/node/node_version.h"), "#define NODE_MAJOR_VERSION 4\n");
    const alone = join(base, "alone/bin/node");
    mkdirSync(join(alone, ".."), { recursive: true });
    symlinkSync(process.execPath, alone);
    const folder = brokenPackage();
    const program = `Object.defineProperty(process, "execPath", { value: ${JSON.stringify(alone)} });`;
    writeFileSync(join(base, "alone.mjs"), program);
    const args = ["--import", join(base, "alone.mjs"), join(folder, "scripts/build-addon.mjs")];
    const env = { ...process.env, npm_config_nodedir: headers };
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: "utf8" });
    rmSync(folder, { recursive: true });
    const major = process.versions.node.split(".")[0];
    expect([status, stderr]).toEqual([1, expect.stringContaining(`has the headers of Node 4, not ${major}`)]);
  });

  it("is a log in the temporary folder where the cache cannot be written", () => {
    const occupied = join(base, "occupied");
    writeFileSync(occupied, "");
    const { log } = failedBuild({ XDG_CACHE_HOME: occupied, TMPDIR: base });
    expect(log.startsWith(join(base, "hone-addon-"))).toBe(true);
    expect(readFileSync(log, "utf8")).toContain("it must not compile");
  });
});

describe("an installed package", () => {
  let folder: string;
  let modules: string;
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  beforeEach(() => {
    folder = mkdtempSync(join(base, "installed-"));
    modules = join(folder, "node_modules");
    mkdirSync(join(folder, "scripts"));
    mkdirSync(modules);
    for (const file of ["scripts/build-addon.mjs", "scripts/sources.mjs", "package.json"])
      copyFileSync(join(packageRoot, file), join(folder, file));
    for (const name of ["better-sqlite3", "bindings", "file-uri-to-path"])
      symlinkSync(join(packageRoot, "node_modules", name), join(modules, name));
  });

  /** On a machine without compiler, git and Python. */
  function install() {
    const bare = join(base, "bare");
    mkdirSync(bare, { recursive: true });
    const options = { cwd: folder, env: { HOME: base, PATH: bare }, encoding: "utf8" } as const;
    return spawnSync(process.execPath, [join(folder, "scripts/build-addon.mjs")], options);
  }
  const platform = (from = version) => platformFolder(join(modules, platformPackage), from);

  it("compiles nothing and needs no compiler where the platform's package loads", () => {
    platform();
    const { status, stdout, stderr } = install();
    expect([status, stdout, stderr]).toEqual([0, "", ""]);
    expect(readdirSync(folder).sort()).toEqual(["node_modules", "package.json", "scripts"]);
  });

  it.each([
    ["is not installed", () => undefined, `${platformPackage} is not installed`],
    ["is of another version", () => platform("0.0.1"), `${platformPackage} is of version 0.0.1, hone of ${version}`],
    [
      "does not load",
      () => {
        const addon = join(platform(), "hone_engine.node");
        rmSync(addon);
        writeFileSync(addon, "no library");
      },
      "hone_engine.node: ",
    ],
  ])("compiles where the platform's package %s, and says so", (_, make, why) => {
    make();
    // SQLite is there: better-sqlite3's own binary, which a checkout has.
    for (const shared of ["node-llama-cpp", "node-addon-api", "node-gyp"])
      symlinkSync(join(packageRoot, "node_modules", shared), join(modules, shared));
    mkdirSync(join(folder, "build"));
    symlinkSync(join(packageRoot, "build/llama"), join(folder, "build/llama"));
    mkdirSync(join(folder, "native/engine"), { recursive: true });
    writeFileSync(join(folder, "binding.gyp"), "{}");
    const { status, stderr } = install();
    const [said, failed, ...rest] = stderr.trimEnd().split("\n");
    expect(said).toMatch(/^hone: compiling the engine's addon, which takes a minute: /);
    expect(said).toContain(why);
    expect(failed).toBe("hone: the engine's addon cannot be built: python3 is missing; node-gyp needs it");
    expect([status, rest]).toEqual([1, []]);
  });

  it("says which Node the platform's package lacks, before it compiles SQLite", () => {
    rmSync(join(platform(), `better_sqlite3-${process.versions.modules}.node`));
    rmSync(join(modules, "better-sqlite3"));
    mkdirSync(join(modules, "better-sqlite3"));
    writeFileSync(join(modules, "better-sqlite3/package.json"), "{}");
    const { status, stderr } = install();
    expect(stderr).toBe(
      `hone: compiling SQLite, which takes a minute: ${platformPackage} has none for Node ${process.versions.node}\n` +
        "hone: SQLite cannot be built: python3 is missing; node-gyp needs it\n",
    );
    expect(status).toBe(1);
  });
});

describe("llama.cpp's libraries for a Mac", () => {
  const METAL = "@node-llama-cpp/mac-arm64-metal";
  const version: string = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).dependencies[
    "node-llama-cpp"
  ];
  /** A checkout with the empty package, and an npm that installs what it is asked for, or refuses. */
  function placed(npm: string, ...machine: string[]) {
    const folder = mkdtempSync(join(base, "mac-"));
    for (const made of ["scripts", "bin", `node_modules/${METAL}`]) mkdirSync(join(folder, made), { recursive: true });
    for (const file of ["scripts/sources.mjs", "package.json"])
      copyFileSync(join(packageRoot, file), join(folder, file));
    writeFileSync(join(folder, "node_modules", METAL, "package.json"), '{ "version": "0.0.0" }');
    writeFileSync(join(folder, "bin/npm"), `#!/bin/sh\n${npm}\n`, { mode: 0o755 });
    const program = `console.log((await import("./scripts/sources.mjs")).placeMetal(...${JSON.stringify(machine)}))`;
    const env = { ...process.env, PATH: `${join(folder, "bin")}:${process.env.PATH}` };
    const args = ["--input-type=module", "-e", program];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: "utf8" });
    return { status, stdout, stderr, there: readdirSync(join(folder, "node_modules", METAL)).sort() };
  }
  const installs = `mkdir -p node_modules/${METAL}/bins && echo '{ "version": "${version}" }' > node_modules/${METAL}/package.json`;

  it("take the place of the empty package in a checkout on a Mac, and nowhere else", () => {
    expect(placed(installs, "darwin", "arm64")).toMatchObject({ status: 0, there: ["bins", "package.json"] });
    expect(placed(installs, "linux", "x64")).toMatchObject({ status: 0, stderr: "", there: ["package.json"] });
  });

  it("may be compiled where npm has none of this version, which is said with npm's reason", () => {
    const none = "echo 'npm error code ETARGET\nnpm error notarget No matching version' >&2; exit 1";
    const { status, stdout, there } = placed(none, "darwin", "arm64");
    expect([status, there]).toEqual([0, ["package.json"]]);
    expect(stdout).toContain(`${METAL}@${version} cannot be fetched (notarget No matching version)`);
    expect(stdout).toContain("npx --no -- node-llama-cpp source download");
  });

  it("are of no use on a Mac with Intel's processor, which is refused", () => {
    expect(placed(installs, "darwin", "x64").stderr).toContain("a Mac with Intel's processor has no wheels of PyTorch");
  });
});
