// Makes sure that hone's compiled files are there: the engine's addon and SQLite (the "install" step of yarn and npm; also
// `node scripts/build-addon.mjs`).
//
// Does nothing where the package of this platform (@hone-rl/linux-x64 ...) has them and they load. Otherwise says why not, in
// one line, and compiles both at once: llama.cpp's headers come from the git bundle in node-llama-cpp, so they match its
// binaries (sources.mjs: where sources come from). Compiles nothing if neither sources nor versions have changed. Fails with
// one line if a prerequisite is missing.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { placeMetal, sourceOf } from "./sources.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const headers = join(root, "build/llama");
const addon = join(root, "build/Release/hone_engine.node");
const stamp = join(root, "build/addon-stamp");
const platform = `@hone-rl/${process.platform}-${process.arch}`;
/** As src/core/util/binaries.ts looks for it: better-sqlite3 is compiled for one version of Node's binary interface. */
const sqlite = `better_sqlite3-${process.versions.modules}.node`;
const SQLITE_LOADS = "new (require('better-sqlite3'))(':memory:', { nativeBinding: process.argv[1] })";

const ADDON = "the engine's addon";
const SQLITE = "SQLite";
/** Milliseconds between two lines while compilers, which print nothing, are at work. */
const LINE_MS = 10_000;

function say(line) {
  process.stderr.write(`hone: ${line}\n`);
}

function fail(line, what = ADDON) {
  say(`${what} cannot be built: ${line}`);
  process.exit(1);
}

function run(command, args, options = {}) {
  return spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28, ...options });
}

function works(command, args) {
  const result = run(command, args);
  return !result.error && result.status === 0;
}

/** Why a file cannot be used; undefined where it can. Tried in a process of its own, which a wrong file may end. */
function whyNot(file, code = "require(process.argv[1])") {
  const { status, signal, stderr } = run(process.execPath, ["-e", code, file], { cwd: root });
  if (status === 0) return undefined;
  return stderr.split("\n").find((line) => /^\w*Error: /.test(line)) ?? `loading it ended with ${signal ?? status}`;
}

/** Why the file of that name in the platform's package cannot be used; undefined where it can. */
function whyNotPrebuilt(name, code) {
  let folder;
  try {
    folder = dirname(require.resolve(`${platform}/package.json`));
  } catch {
    return existsSync(join(root, "tsconfig.build.json"))
      ? "a checkout has none prebuilt"
      : `${platform} is not installed`;
  }
  const [have, want] = [packageVersion(folder), packageVersion(root)];
  if (have !== want) return `${platform} is of version ${have}, hone of ${want}`;
  const file = join(folder, name);
  if (!existsSync(file)) return `${platform} has none for Node ${process.versions.node}`;
  return whyNot(file, code);
}

/** Ends where it can neither be found nor fetched. */
function sourcesOf(name, what) {
  try {
    return sourceOf(name);
  } catch (error) {
    return fail(error.message, what);
  }
}

function packageVersion(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
}

/** Copies include/, ggml/include/, LICENSE and CMakeLists.txt (which names the version) out of the bundle. */
function extractHeaders(folder, version) {
  const mark = join(headers, "node-llama-cpp-version");
  const licence = join(headers, "LICENSE");
  if (existsSync(mark) && existsSync(licence) && readFileSync(mark, "utf8") === version) return;
  if (!works("git", ["--version"])) fail("git is missing; it unpacks llama.cpp's headers from node-llama-cpp's bundle");
  const clone = `${headers}.${process.pid}`;
  rmSync(clone, { recursive: true, force: true });
  mkdirSync(dirname(clone), { recursive: true });
  // The bundle is part of this installation and as trusted as the rest of it, whichever user owns it.
  const git = (...args) => run("git", ["-c", "safe.directory=*", "-c", "advice.detachedHead=false", ...args]);
  for (const args of [
    ["clone", "--quiet", "--no-checkout", join(folder, "llama/gitRelease.bundle"), clone],
    ["-C", clone, "checkout", "--quiet", "HEAD", "--", "include", "ggml/include", "CMakeLists.txt", "LICENSE"],
  ]) {
    const result = git(...args);
    if (result.status !== 0)
      fail(`git cannot unpack node-llama-cpp's bundle: ${result.stderr.trim().split("\n").pop()}`);
  }
  rmSync(join(clone, ".git"), { recursive: true, force: true });
  writeFileSync(join(clone, "node-llama-cpp-version"), version);
  rmSync(headers, { recursive: true, force: true });
  renameSync(clone, headers);
}

function llamaVersion() {
  const text = readFileSync(join(headers, "CMakeLists.txt"), "utf8");
  const part = (name) => text.match(new RegExp(`set\\(LLAMA_VERSION_${name} (\\d+)\\)`))?.[1];
  return `${part("MAJOR")}.${part("MINOR")}.${part("PATCH")}`;
}

/** Everything the binary depends on. */
function fingerprint(llamaPackageVersion) {
  const hash = createHash("sha256");
  const sources = join(root, "native/engine");
  for (const name of readdirSync(sources).sort()) {
    if (/\.(cc|h)$/.test(name)) hash.update(`${name}\0`).update(readFileSync(join(sources, name)));
  }
  for (const file of ["binding.gyp", "scripts/build-addon.mjs"]) hash.update(readFileSync(join(root, file)));
  // Not Node's version: Node-API is the same in all.
  const versions = [process.arch, llamaPackageVersion, packageVersion(sourcesOf("node-addon-api"))];
  return hash.update(JSON.stringify(versions)).digest("hex");
}

/** Ends where a program that node-gyp needs is missing. */
function checkCompiler(what) {
  if (!works("python3", ["--version"])) fail("python3 is missing; node-gyp needs it", what);
  if (process.platform === "win32") return;
  if (!works("make", ["--version"])) fail("make is missing; install a C++ compiler and make (build-essential)", what);
  const compiler = process.env.CXX ?? (process.platform === "darwin" ? "clang++" : "g++");
  if (!works(compiler, ["--version"])) fail(`${compiler} is missing; install a C++ compiler (build-essential)`, what);
}

/** The major version of the Node whose headers are in a folder; undefined where there are none. */
function headersIn(folder) {
  const file = join(folder, "include/node/node_version.h");
  return existsSync(file) ? readFileSync(file, "utf8").match(/NODE_MAJOR_VERSION (\d+)/)?.[1] : undefined;
}

/** Names Node's headers for node-gyp: those beside the binary need no download. Empty where it finds them itself. */
function headersSetting(what) {
  const major = process.versions.node.split(".")[0];
  const given = process.env.npm_config_nodedir;
  const of = given && headersIn(given);
  if (given && (of === undefined || of === major)) return {};
  const prefix = dirname(dirname(process.execPath));
  if (headersIn(prefix) === major) return { npm_config_nodedir: prefix };
  if (given)
    fail(`npm's nodedir, ${given}, has the headers of Node ${of}, not ${major}: npm config delete nodedir`, what);
  return {};
}

/** Runs node-gyp in a package. Returns why it did not make the file; undefined where it did. */
async function compile(what, folder, made, log, env = process.env) {
  const gyp = join(sourcesOf("node-gyp"), "bin/node-gyp.js");
  const args = [gyp, "configure", "build", "--release", "--jobs=2"];
  // Where binding.gyp finds node-addon-api.
  const beyond = { ...env, NODE_PATH: dirname(sourcesOf("node-addon-api")), ...headersSetting(what) };
  const child = spawn(process.execPath, args, { cwd: folder, env: beyond, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  const [status] = await once(child, "close");
  if (status === 0 && existsSync(made)) return undefined;
  const reason = output.split("\n").find((line) => /\berror\b/i.test(line)) ?? "node-gyp failed";
  return `${reason.trim()} (all of it: ${keep(output, log)})`;
}

/** The compilation of the addon; undefined where neither sources nor versions have changed. */
function addonHere(why) {
  const folder = sourcesOf("node-llama-cpp");
  const version = packageVersion(folder);
  extractHeaders(folder, version);
  const now = fingerprint(version);
  if (existsSync(addon) && existsSync(stamp) && readFileSync(stamp, "utf8") === now) return undefined;
  say(`compiling ${ADDON}, which takes a minute: ${why}`);
  checkCompiler(ADDON);
  const work = async () => {
    const failed = await compile(ADDON, root, addon, "addon-build.log");
    if (failed === undefined) writeFileSync(stamp, now);
    return failed;
  };
  return { what: ADDON, work };
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

/** The compilation of SQLite; undefined where better-sqlite3 or an earlier call has a binary that loads. */
function sqliteHere(why) {
  const folder = dirname(require.resolve("better-sqlite3/package.json"));
  const own = join(folder, "build/Release/better_sqlite3.node");
  const kept = join(root, "build/Release", sqlite);
  const found = [kept, own].find((file) => existsSync(file) && whyNot(file, SQLITE_LOADS) === undefined);
  if (found !== undefined) {
    // The first is what hone loads; the second yarn takes away when it links anew.
    for (const file of [kept, own]) if (!existsSync(file)) copy(found, file);
    return undefined;
  }
  say(`compiling ${SQLITE}, which takes a minute: ${why}`);
  checkCompiler(SQLITE);
  const ground = sourcesOf("better-sqlite3", SQLITE);
  const made = join(ground, "build/Release/better_sqlite3.node");
  const work = async () => {
    // Objects of another Node: make may take its headers, which are as old as their release, for unchanged.
    rmSync(join(ground, "build"), { recursive: true, force: true });
    // The -O3 of better-sqlite3 takes twice the CPU time, and searches in mail are no faster for it, nor for -O2.
    const flags = (given = "") => `-O1 ${given}`.trim();
    const { CFLAGS, CXXFLAGS } = process.env;
    const env = { ...process.env, CFLAGS: flags(CFLAGS), CXXFLAGS: flags(CXXFLAGS) };
    const failed = await compile(SQLITE, ground, made, "sqlite-build.log", env);
    if (failed !== undefined) return failed;
    const wrong = whyNot(made, SQLITE_LOADS);
    if (wrong !== undefined) return `what was compiled does not load: ${wrong}`;
    copy(made, kept);
    return undefined;
  };
  return { what: SQLITE, work };
}

/** Does all at once, with a line again and again. One that fails ends the program when the others are done. */
async function together(jobs) {
  const begun = Date.now();
  const seconds = () => `${Math.round((Date.now() - begun) / 1000)} s`;
  const underWay = new Set(jobs.map(({ what }) => what));
  const lines = setInterval(() => say(`still compiling ${[...underWay].join(" and ")} (${seconds()})`), LINE_MS);
  const results = await Promise.all(
    jobs.map(async ({ what, work }) => {
      const failed = await work();
      underWay.delete(what);
      if (failed === undefined) say(`${what} is compiled (${seconds()})`);
      return { what, failed };
    }),
  );
  clearInterval(lines);
  for (const { what, failed } of results) if (failed !== undefined) fail(failed, what);
}

/**
 * Keeps the output of a failed build in the user's cache: npm deletes the folder of a package whose install script fails.
 * Returns the file.
 */
function keep(output, name) {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "hone");
  const write = (folder) => {
    const log = join(folder, name);
    writeFileSync(log, output);
    return log;
  };
  try {
    mkdirSync(cache, { recursive: true });
    return write(cache);
  } catch {
    // A home that cannot be written, as of an install in a container's system folder.
    return write(mkdtempSync(join(tmpdir(), "hone-addon-")));
  }
}

if (process.argv.includes("--print-llama-version")) {
  const folder = sourcesOf("node-llama-cpp");
  extractHeaders(folder, packageVersion(folder));
  process.stdout.write(llamaVersion());
} else {
  try {
    const without = placeMetal();
    if (without !== undefined) say(without);
  } catch (error) {
    fail(error.message);
  }
  const noSqlite = whyNotPrebuilt(sqlite, SQLITE_LOADS);
  const noAddon = whyNotPrebuilt("hone_engine.node");
  const jobs = [
    noSqlite === undefined ? undefined : sqliteHere(noSqlite),
    noAddon === undefined ? undefined : addonHere(noAddon),
  ];
  await together(jobs.filter((job) => job !== undefined));
}
