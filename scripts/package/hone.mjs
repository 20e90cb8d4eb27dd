// Lays out @hone-rl/hone as it is published: the files that npm would pack of the checkout, the packages whose own install
// scripts download or compile, without these scripts, and a package.json that names the packages of compiled files.
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { PLATFORMS, SCOPE } from "./platforms.mjs";
import { npm, root } from "./run.mjs";

const require = createRequire(import.meta.url);
const SQLITE = "better-sqlite3";
const LLAMA = "node-llama-cpp";
const COMPILERS = ["node-addon-api", "node-gyp"];
/** Of bundled packages: sources of llama.cpp, which are most of it, and maps of a compiler. */
const LEFT_OUT = /^llama\/gitRelease\.bundle$|\.map$/;
/** The one package of llama.cpp's libraries that npm installs on no machine that it is not for: others name x64 too. */
const FOR_X64_ALONE = "@node-llama-cpp/linux-x64";

export const json = (value) => `${JSON.stringify(value, null, 2)}\n`;
export const aboutOf = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** Its package.json is not exported. */
const llamaFolder = () => dirname(dirname(fileURLToPath(import.meta.resolve(LLAMA))));

/**
 * package.json as it is published, without what is for development.
 *
 * Bundled are better-sqlite3, which would fetch a binary from a release page or compile, and node-llama-cpp, with which npm
 * would fetch llama.cpp's libraries for all GPUs. The library for the CPU comes with the platform's package; hone fetches the
 * others itself.
 *
 * @param libraries node-llama-cpp's optionalDependencies
 */
export function publishedManifest(about, libraries) {
  const { devDependencies: _, resolutions: __, packageManager: ___, scripts, ...kept } = about;
  return {
    ...kept,
    scripts: { preinstall: scripts.preinstall, install: scripts.install },
    optionalDependencies: {
      ...Object.fromEntries(PLATFORMS.map(({ name }) => [`${SCOPE}/${name}`, about.version])),
      // Without a package of the platform too: hone is compiled then.
      [FOR_X64_ALONE]: libraries[FOR_X64_ALONE],
    },
    bundleDependencies: [SQLITE, LLAMA],
    // For scripts/sources.mjs, which fetches them where something has to be compiled.
    sources: Object.fromEntries(COMPILERS.map((name) => [name, about.devDependencies[name]])),
  };
}

/** package.json of a bundled package: npm runs no script of it, and looks for nothing that is not there. */
function bundledManifest({ scripts: _, devDependencies: __, optionalDependencies: ___, overrides: ____, ...about }) {
  // Without gypfile npm would compile a package with a binding.gyp.
  return { ...about, gypfile: false };
}

function copyPackage(from, to, paths) {
  for (const path of paths) {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    copyFileSync(join(from, path), join(to, path));
  }
}

function bundleSqlite(folder) {
  const from = dirname(require.resolve(`${SQLITE}/package.json`));
  mkdirSync(folder, { recursive: true });
  for (const name of ["LICENSE", "lib"]) cpSync(join(from, name), join(folder, name), { recursive: true });
  // They load and fetch the binary that hone's own packages have.
  const { dependencies: _, ...about } = bundledManifest(aboutOf(from));
  writeFileSync(join(folder, "package.json"), json(about));
}

/** With all packages that it needs, in the versions of this checkout. */
async function bundleLlama(folder) {
  const { filesOf, installedPackages } = await import(join(root, "dist/src/machine/pack/installed.js"));
  const { INSIDE } = await import(join(root, "dist/src/machine/pack/unpack.mjs"));
  for (const { place, folder: from } of installedPackages(llamaFolder(), () => false)) {
    const to = place === INSIDE ? folder : join(folder, place);
    copyPackage(
      from,
      to,
      filesOf(from).filter((path) => !LEFT_OUT.test(path)),
    );
    writeFileSync(join(to, "package.json"), json(bundledManifest(aboutOf(from))));
  }
}

/** @param folder made anew */
export async function layOutHone(folder) {
  rmSync(folder, { recursive: true, force: true });
  const [{ files }] = JSON.parse(npm(["pack", "--dry-run", "--ignore-scripts", "--json"], root));
  copyPackage(
    root,
    folder,
    files.map(({ path }) => path),
  );
  const { optionalDependencies } = aboutOf(llamaFolder());
  writeFileSync(join(folder, "package.json"), json(publishedManifest(aboutOf(root), optionalDependencies)));
  bundleSqlite(join(folder, "node_modules", SQLITE));
  await bundleLlama(join(folder, "node_modules", LLAMA));
}
