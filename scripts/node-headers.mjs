// Runs before anything is installed (yarn's preinstall), so it may import nothing but Node itself.
//
// Native packages compile against Node's C headers, which node-gyp downloads into a cache. Most
// installations carry the same headers beside the node binary: put those into the cache instead, so that
// an offline machine can compile. Does nothing when the cache has them already, when npm's `nodedir`
// says where they are, or when there are none beside the binary (node-gyp then downloads them as usual).
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

/** The layout version that node-gyp writes into its cache; it downloads again when the number is lower. */
const NODE_GYP_INSTALL_VERSION = "11";

function cacheRoot() {
  if (process.env.npm_config_devdir) return process.env.npm_config_devdir;
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches", "node-gyp");
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "node-gyp");
}

function versionOf(includeDir) {
  const file = join(includeDir, "node", "node_version.h");
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, "utf8");
  const part = (name) => text.match(new RegExp(`#define NODE_${name}_VERSION (\\d+)`))?.[1];
  return `${part("MAJOR")}.${part("MINOR")}.${part("PATCH")}`;
}

const version = process.versions.node;
const include = join(dirname(dirname(process.execPath)), "include");
const target = join(cacheRoot(), version);

if (!process.env.npm_config_nodedir && !existsSync(join(target, "installVersion")) && versionOf(include) === version) {
  // Made in a temporary folder and renamed, so that a concurrent install never sees half a copy.
  const aside = `${target}.${process.pid}`;
  mkdirSync(join(aside, "include"), { recursive: true });
  cpSync(join(include, "node"), join(aside, "include", "node"), { recursive: true });
  writeFileSync(join(aside, "installVersion"), `${NODE_GYP_INSTALL_VERSION}\n`);
  rmSync(target, { recursive: true, force: true });
  renameSync(aside, target);
}
