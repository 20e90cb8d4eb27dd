// Builds the engine's native addon (yarn's "install" step; also `node scripts/build-addon.mjs`).
//
// llama.cpp's headers come from the git bundle in node-llama-cpp, so they match its binaries and nothing is downloaded.
// Does nothing if neither sources nor versions have changed. Fails with one line if a prerequisite is missing.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
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

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const headers = join(root, "build/llama");
const addon = join(root, "build/Release/hone_engine.node");
const stamp = join(root, "build/addon-stamp");

function fail(line) {
  process.stderr.write(`hone: the engine's addon cannot be built: ${line}\n`);
  process.exit(1);
}

function run(command, args, options = {}) {
  return spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 28, ...options });
}

function works(command, args) {
  const result = run(command, args);
  return !result.error && result.status === 0;
}

/** node-llama-cpp's folder, found through its entry point, since its package.json is not exported. */
function llamaPackage() {
  let folder;
  try {
    folder = dirname(fileURLToPath(import.meta.resolve("node-llama-cpp")));
  } catch {
    fail("node-llama-cpp is not installed; run `yarn install`");
  }
  while (!existsSync(join(folder, "llama/gitRelease.bundle"))) {
    if (dirname(folder) === folder) fail("node-llama-cpp has no llama/gitRelease.bundle; reinstall it");
    folder = dirname(folder);
  }
  return folder;
}

function packageVersion(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
}

/** Copies include/, ggml/include/ and CMakeLists.txt (which names the version) out of the bundle. */
function extractHeaders(folder, version) {
  const mark = join(headers, "node-llama-cpp-version");
  if (existsSync(mark) && readFileSync(mark, "utf8") === version) return;
  if (!works("git", ["--version"])) fail("git is missing; it unpacks llama.cpp's headers from node-llama-cpp's bundle");
  const clone = `${headers}.${process.pid}`;
  rmSync(clone, { recursive: true, force: true });
  mkdirSync(dirname(clone), { recursive: true });
  // The bundle is part of this installation and as trusted as the rest of it, whichever user owns it.
  const git = (...args) => run("git", ["-c", "safe.directory=*", "-c", "advice.detachedHead=false", ...args]);
  for (const args of [
    ["clone", "--quiet", "--no-checkout", join(folder, "llama/gitRelease.bundle"), clone],
    ["-C", clone, "checkout", "--quiet", "HEAD", "--", "include", "ggml/include", "CMakeLists.txt"],
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
  const versions = [process.version, process.arch, llamaPackageVersion, packageVersion(dirname(napiFolder()))];
  return hash.update(JSON.stringify(versions)).digest("hex");
}

function napiFolder() {
  return require.resolve("node-addon-api");
}

function compile() {
  if (!works("python3", ["--version"])) fail("python3 is missing; node-gyp needs it");
  if (!works("make", ["--version"])) fail("make is missing; install a C++17 compiler and make (build-essential)");
  const compiler = process.env.CXX ?? (process.platform === "darwin" ? "clang++" : "g++");
  if (!works(compiler, ["--version"])) fail(`${compiler} is missing; install a C++17 compiler (build-essential)`);
  // Headers beside the node binary need no download.
  const prefix = dirname(dirname(process.execPath));
  const beside = existsSync(join(prefix, "include/node/node_api.h")) && !process.env.npm_config_nodedir;
  const gyp = join(dirname(require.resolve("node-gyp/package.json")), "bin/node-gyp.js");
  const args = [gyp, "configure", "build", "--release", "--jobs=2", ...(beside ? [`--nodedir=${prefix}`] : [])];
  const result = run(process.execPath, args, { cwd: root });
  if (result.status === 0 && existsSync(addon)) return;
  const output = `${result.stdout}\n${result.stderr}`;
  const reason = output.split("\n").find((line) => /\berror\b/i.test(line)) ?? "node-gyp failed";
  fail(`${reason.trim()} (all of it: ${keep(output)})`);
}

/**
 * Keeps the output of a failed build in the user's cache: npm deletes the folder of a package whose install script fails.
 * Returns the file.
 */
function keep(output) {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "hone");
  const write = (folder) => {
    const log = join(folder, "addon-build.log");
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

const folder = llamaPackage();
const version = packageVersion(folder);
extractHeaders(folder, version);

if (process.argv.includes("--print-llama-version")) {
  process.stdout.write(llamaVersion());
} else {
  const now = fingerprint(version);
  if (!existsSync(addon) || !existsSync(stamp) || readFileSync(stamp, "utf8") !== now) {
    compile();
    writeFileSync(stamp, now);
  }
}
