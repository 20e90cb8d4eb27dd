/** llama.cpp's libraries for GPUs, fetched by npm when they are wanted; npm is a stand-in that has tarballs. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { fetchedLibraries, fetchLibraries, LLAMA_VERSION, librariesFolder } from "../../src/engine/libraries.js";

const NAME = "@node-llama-cpp/linux-x64-none";
let folder: string;
const before = { ...process.env };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-libraries-"));
  process.env.XDG_CACHE_HOME = join(folder, "cache");
});
afterEach(() => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, before);
  rmSync(folder, { recursive: true });
});

/** A package of libraries as node-llama-cpp's are. Returns its tarball's integrity. */
function publish(): string {
  const about = { name: NAME, version: LLAMA_VERSION, type: "module", main: "dist/index.js" };
  mkdirSync(join(folder, "package/dist"), { recursive: true });
  mkdirSync(join(folder, "package/bins/linux-x64-none"), { recursive: true });
  writeFileSync(join(folder, "package/package.json"), JSON.stringify(about));
  writeFileSync(join(folder, "package/dist/index.js"), `export const here = import.meta.url;`);
  writeFileSync(join(folder, "package/bins/linux-x64-none/libggml.so"), "a library");
  execFileSync("tar", ["czf", "published.tgz", "package"], { cwd: folder });
  const hash = createHash("sha512").update(readFileSync(join(folder, "published.tgz")));
  return `sha512-${hash.digest("base64")}`;
}

/** Puts a program of that name before all others. */
function standIn(script: string): void {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "npm"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, "npm"), 0o755);
  process.env.PATH = `${bin}:${before.PATH}`;
}

const copying = (then = "") =>
  `echo "$@" >> ${folder}/asked; [ "$3" = --pack-destination ] || exit 9; ${then}\ncp ${folder}/published.tgz "$4/none.tgz"`;

async function fetchOne(integrity: string) {
  const said: string[] = [];
  const libraries = { [NAME]: { integrity, megabytes: 1 } };
  await fetchLibraries([NAME], { onProgress: (line) => said.push(line), libraries });
  return said;
}

describe("libraries that are wanted", () => {
  it("are fetched once, in the version of node-llama-cpp, and found by whoever imports them", async () => {
    const integrity = publish();
    standIn(copying());
    const said = await fetchOne(integrity);
    expect(said).toEqual([`fetching ${NAME} ${LLAMA_VERSION}, llama.cpp's libraries for this GPU (1 MB on disk)`]);
    expect(await fetchOne(integrity)).toEqual([]);
    expect(readFileSync(join(folder, "asked"), "utf8")).toMatch(
      new RegExp(`^pack ${NAME}@${LLAMA_VERSION} --pack-destination \\S+ .*\\n$`),
    );
    const bins = join(librariesFolder(), NAME, "bins/linux-x64-none/libggml.so");
    expect(readFileSync(bins, "utf8")).toBe("a library");
    expect(readdirSync(join(librariesFolder(), "@node-llama-cpp"))).toEqual(["linux-x64-none"]);

    // As node-llama-cpp imports them; what is not there stays an error.
    const program = `
      import { findFetched } from ${JSON.stringify(join(packageRoot, "dist/src/engine/libraries.js"))};
      const missing = await import("${NAME}").catch((error) => error.code);
      findFetched();
      const { here } = await import("${NAME}");
      const none = await import("${NAME}-at-all").catch((error) => error.code);
      const other = await import("nothing-of-that-name").catch((error) => error.code);
      console.log(JSON.stringify({ missing, here, none, other }));`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      encoding: "utf8",
    });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual({
      missing: "ERR_MODULE_NOT_FOUND",
      here: expect.stringContaining(`llama-${LLAMA_VERSION}/node_modules/${NAME}/dist/index.js`),
      none: "ERR_MODULE_NOT_FOUND",
      other: "ERR_MODULE_NOT_FOUND",
    });
  });

  it("are fetched by one of several processes", async () => {
    const integrity = publish();
    standIn(copying("sleep 0.5"));
    const program = `
      import { fetchLibraries } from ${JSON.stringify(join(packageRoot, "dist/src/engine/libraries.js"))};
      const libraries = { "${NAME}": { integrity: "${integrity}", megabytes: 1 } };
      await fetchLibraries(["${NAME}"], { onProgress: (line) => console.log(line), libraries });`;
    const one = () =>
      new Promise<{ code: number | null; said: string }>((resolve) => {
        const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        let said = "";
        child.stdout.on("data", (chunk) => {
          said += chunk;
        });
        child.once("close", (code) => resolve({ code, said }));
      });
    const both = await Promise.all([one(), one()]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(readFileSync(join(folder, "asked"), "utf8").trim().split("\n")).toHaveLength(1);
  });

  it.each([
    [
      "are others than hone knows",
      () => standIn(copying()),
      "sha512-of-another",
      /as npm's registry gives it is not the/,
    ],
    [
      "cannot be reached",
      () => standIn("echo 'npm error code ENOTFOUND' >&2; echo 'npm error network request failed' >&2; exit 1"),
      "",
      /cannot be fetched \(network request failed\): go online once, name a mirror with npm_config_registry, or .* --gpu off$/,
    ],
    [
      "need an npm that is not there",
      () => {
        process.env.PATH = folder;
      },
      "",
      /cannot be fetched \(npm is not installed\)/,
    ],
  ])("that %s are refused in one line, and nothing is left behind", async (_, given, integrity, why) => {
    const known = publish();
    given();
    const error = await fetchOne(integrity || known).catch((error: Error) => error.message);
    expect(error).toMatch(why);
    expect(error).not.toContain("\n");
    expect(readdirSync(join(librariesFolder(), "@node-llama-cpp"))).toEqual([]);
  });

  it("that are installed with hone, and are not there, are refused with the remedy", async () => {
    const fetching = fetchLibraries(["@node-llama-cpp/linux-x64"], { onProgress: () => undefined });
    await expect(fetching).rejects.toThrow(
      /^@node-llama-cpp\/linux-x64, llama.cpp's libraries, is not installed: run `/,
    );
  });

  it("are fetched anew where a killed process has left a part", async () => {
    const integrity = publish();
    standIn(copying());
    const part = join(librariesFolder(), `${NAME}.part`);
    mkdirSync(join(part, "package"), { recursive: true });
    writeFileSync(join(part, "package/half"), "");
    await fetchOne(integrity);
    expect(existsSync(part)).toBe(false);
    expect(existsSync(join(librariesFolder(), NAME, "half"))).toBe(false);
  });

  it("end with the signal", async () => {
    const integrity = publish();
    standIn("exec sleep 60");
    const stop = new AbortController();
    const libraries = { [NAME]: { integrity, megabytes: 1 } };
    const fetching = fetchLibraries([NAME], { onProgress: () => stop.abort(), signal: stop.signal, libraries });
    await expect(fetching).rejects.toThrow("aborted");
    expect(readdirSync(join(librariesFolder(), "@node-llama-cpp"))).toEqual([]);
  });
});

it("the version is that of node-llama-cpp, which knows each of them", () => {
  const { dependencies } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  expect(dependencies["node-llama-cpp"]).toBe(LLAMA_VERSION);
  const llama = join(packageRoot, "node_modules/node-llama-cpp/package.json");
  const { optionalDependencies } = JSON.parse(readFileSync(llama, "utf8"));
  for (const name of Object.keys(fetchedLibraries)) expect(optionalDependencies[name]).toBe(LLAMA_VERSION);
});
