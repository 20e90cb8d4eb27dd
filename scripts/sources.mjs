// Sources that the package does without: of SQLite, of llama.cpp, and what compiles them. They are needed where nothing prebuilt
// loads, and for the conversion of models. A checkout has them; elsewhere npm, with the user's own configuration of it, fetches
// each from the package that carries it when it is first needed.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const about = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const METAL = "@node-llama-cpp/mac-arm64-metal";
const ofLlama = { [METAL]: about.dependencies["node-llama-cpp"] };
const versions = { ...about.devDependencies, ...about.dependencies, ...about.sources, ...ofLlama };

/** A file of each package that is there only where its sources are. */
const needed = {
  "better-sqlite3": "deps/sqlite3/sqlite3.c",
  "node-addon-api": "napi.h",
  "node-gyp": "bin/node-gyp.js",
  "node-llama-cpp": "llama/gitRelease.bundle",
  [METAL]: "bins",
};

function find(name) {
  const has = (folder) =>
    existsSync(join(folder, needed[name])) &&
    JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version === versions[name];
  for (let folder = root; ; folder = dirname(folder)) {
    const there = join(folder, "node_modules", name);
    if (has(there)) return realpathSync(there);
    if (folder === dirname(folder)) break;
  }
  const fetched = join(root, "build/sources", name, "node_modules", name);
  return has(fetched) ? fetched : undefined;
}

/**
 * @returns the folder of a package with its sources
 * @throws Error in one line where npm cannot fetch it
 */
export function sourceOf(name) {
  const found = find(name);
  if (found !== undefined) return found;
  const wanted = `${name}@${versions[name]}`;
  process.stderr.write(`hone: fetching ${wanted}, which has what is left out here\n`);
  const target = join(root, "build/sources", name);
  // Made aside and renamed, so that no other process sees half of it.
  const aside = `${target}.${process.pid}`;
  mkdirSync(aside, { recursive: true });
  try {
    writeFileSync(join(aside, "package.json"), '{ "private": true }\n');
    // npm hands the settings of the installation that called, such as --global, to what its scripts start.
    const settings = ["--global=false", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--prefix"];
    const { status, stderr, error } = spawnSync("npm", ["install", ...settings, aside, wanted], {
      cwd: aside,
      encoding: "utf8",
      shell: process.platform === "win32",
    });
    if (status !== 0) {
      // Its first line is a code alone: "code ETARGET", and then "notarget No matching version found for ...".
      const said = (stderr ?? "").split("\n").filter((line) => /^npm (error|ERR!) ./.test(line));
      const why = error ? "npm is not installed" : (said[1] ?? said[0] ?? "npm failed").replace(/^npm \S+ /, "");
      throw new Error(
        `${wanted} cannot be fetched (${why}); go online once, or name a mirror with npm_config_registry`,
      );
    }
    if (find(name) === undefined) {
      rmSync(target, { recursive: true, force: true });
      renameSync(aside, target);
    }
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
  return find(name);
}

/**
 * A checkout has an empty package in the place of llama.cpp's libraries for a Mac (package.json's resolutions): yarn 1 would
 * download them on every system. On a Mac they are put there.
 *
 * @returns why npm cannot fetch them, in one line: node-llama-cpp may have compiled llama.cpp instead
 * @throws Error in one line where this is a Mac on which hone cannot run
 */
export function placeMetal(platform = process.platform, arch = process.arch) {
  if (platform !== "darwin") return;
  if (arch !== "arm64") throw new Error("a Mac with Intel's processor has no wheels of PyTorch 2.3 and newer");
  const empty = join(root, "node_modules", METAL);
  if (!existsSync(empty) || find(METAL) !== undefined) return;
  try {
    cpSync(sourceOf(METAL), empty, { recursive: true });
  } catch (error) {
    return `${error.message}, or compile llama.cpp: npx --no -- node-llama-cpp source download`;
  }
}
