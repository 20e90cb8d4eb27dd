/** The packages of npm that run hone, as they are installed here, and how they lie in a folder of their own. */
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { reinstall } from "../../core/util/program.js";
import { INSIDE } from "./unpack.mjs";

export interface Placed {
  /** Here, with links resolved. */
  readonly folder: string;
  /** "node_modules/zod" */
  readonly place: string;
}

interface About {
  readonly name?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { optional?: boolean }>>;
}

const aboutOf = (folder: string) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as About;

/** As Node finds it; undefined where it is not installed. */
function find(name: string, from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const there = join(folder, "node_modules", name);
    if (basename(folder) !== "node_modules" && existsSync(join(there, "package.json"))) return realpathSync(there);
    if (folder === dirname(folder)) return undefined;
  }
}

/** Packages by name that another one needs, and whether it runs without. */
function needs(about: About): Map<string, { readonly optional: boolean }> {
  const { dependencies = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = about;
  const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional);
  return new Map<string, { readonly optional: boolean }>([
    ...[...Object.keys(dependencies), ...peers].map((name) => [name, { optional: false }] as const),
    ...Object.keys(optionalDependencies).map((name) => [name, { optional: true }] as const),
  ]);
}

/**
 * Hone and what it needs. Each package lies where all that need it find the very folder that they find here: at the top,
 * or, where another of the same name is seen from there, beneath the one that needs it. The packages that one needs are
 * placed before those that these need, so that none comes between a package and what it found.
 *
 * @param root hone's folder
 * @param takes whether an optional package is wanted
 * @throws HoneError when one is missing
 */
export function installedPackages(root: string, takes: (name: string) => boolean): Placed[] {
  const byPlace = new Map<string, string>([[INSIDE, realpathSync(root)]]);
  const queue: Placed[] = [{ place: INSIDE, folder: realpathSync(root) }];
  const seen = (name: string, from: string): string | undefined => {
    // "node_modules/a/node_modules/b" looks there, in node_modules/a, and at the top.
    const parts = `/${from}`.split("/node_modules/");
    for (let count = parts.length; count > 0; count--) {
      const place = [...parts.slice(0, count), name].join("/node_modules/").slice(1);
      const folder = byPlace.get(place);
      if (folder !== undefined) return folder;
    }
    return undefined;
  };
  for (const { place, folder } of queue) {
    const about = aboutOf(folder);
    for (const [name, { optional }] of needs(about)) {
      const found = optional && !takes(name) ? undefined : find(name, folder);
      if (found === undefined) {
        if (optional) continue;
        throw new HoneError(`${name}, which ${about.name} needs, is not installed: run ${reinstall()}`);
      }
      const there = seen(name, place);
      if (there === found) continue;
      const into = there === undefined ? `node_modules/${name}` : `${place}/node_modules/${name}`;
      byPlace.set(into, found);
      queue.push({ place: into, folder: found });
    }
  }
  return queue;
}

/** What compiling a native module leaves behind beside it. */
const LEFT_BY_COMPILER = /^build\/(Release\/)?(\.deps|obj|obj\.target)(\/|$)/;

/** Paths of a package's own files; those of packages beneath it are not its own. */
export function filesOf(folder: string, below = ""): string[] {
  return readdirSync(join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const path = below ? `${below}/${entry.name}` : entry.name;
    if (path === "node_modules" || LEFT_BY_COMPILER.test(path)) return [];
    if (entry.isDirectory()) return filesOf(folder, path);
    return entry.isFile() ? [path] : [];
  });
}
