/** `hone init` without its prompts: creates a project in a folder without files of the user. Overwrites nothing. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, extname, join, relative, resolve } from "node:path";
import { platformPackage } from "../../core/util/binaries.js";
import { UsageError } from "../../core/util/errors.js";
import { writeDurably } from "../../core/util/files.js";
import { filesOf, honeOf, type PackageJson, type Project, packageJson, scriptsOf } from "./templates.js";

/** Files that git and an installation of hone (docs/release.md) put into an empty folder; they do not count as content. */
const NOT_OURS = [
  ...["node_modules", ".git", ".hone", "package-lock.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock"],
  ...["yarn.lock", ".yarn", ".yarnrc.yml"],
];

/** What comes with an unpacked hone: models, and the options by which it does without a network. */
const UNPACKED = { files: ["hone.config.json", "hub", "models"], options: ["hfCache", "hfOffline"] };

/** A folder, with what is there already. */
export type Ground = ReturnType<typeof groundOf>;

/**
 * Looks whether a project can be made in a folder.
 * @throws UsageError naming the files that are in the way
 */
export function groundOf(given: string) {
  const folder = resolve(given);
  const present = existsSync(folder) ? readdirSync(folder) : [];
  const file = join(folder, "package.json");
  const found = present.includes("package.json") ? readJson(file) : undefined;
  // A package.json that depends on hone and has no scripts was written by `npm install`.
  const fresh = found && honeOf(found) !== undefined && !Object.keys(found.scripts ?? {}).some(isOurs);
  const config = fresh ? readJson(join(folder, "hone.config.json")) : undefined;
  const unpacked = config && Object.keys(config).every((name) => UNPACKED.options.includes(name)) ? config : undefined;
  const known = [...NOT_OURS, ...(fresh ? ["package.json"] : []), ...(unpacked ? UNPACKED.files : [])];
  const others = present.filter((name) => !known.includes(name));
  if (others.length > 0) {
    const more = others.length > 5 ? ` and ${others.length - 5} more` : "";
    throw new UsageError(
      `${folder} is not empty: it has ${others.slice(0, 5).join(", ")}${more}; give an empty folder, or a new one: init FOLDER`,
    );
  }
  return {
    folder,
    /** As written by npm when hone was installed; undefined if missing. */
    package: fresh ? found : undefined,
    /** Options that unpacking hone put here; undefined elsewhere. */
    unpacked,
  };
}

const isOurs = (script: string) => Object.hasOwn(scriptsOf({ model: "" }), script);

function readJson(file: string): PackageJson | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as PackageJson;
  } catch {
    return undefined;
  }
}

/** A valid npm package name derived from the folder. */
export function nameOf(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+|-+$/g, "");
  return name === "" || name === "hone" ? "task" : name;
}

/**
 * What package.json has to say for a tarball (its path from the project) or a version of the published package.
 * @throws UsageError when it is neither
 */
export function dependencyOf(given: string, folder: string): string {
  if (/^[\^~]?\d+\.\d+\.\d+\S*$/.test(given)) return given;
  const version = /^@hone-rl\/hone@(.+)$/.exec(given)?.[1];
  if (version !== undefined) return version;
  const tarball = resolve(given.replace(/^file:/, ""));
  if (![".tgz", ".gz"].includes(extname(tarball)) || !existsSync(tarball)) {
    throw new UsageError(
      `--package ${given}: give the path of the tarball that \`yarn package\` makes of hone, or a published version such as @hone-rl/hone@1.2.3`,
    );
  }
  return `file:${relative(folder, tarball)}`;
}

/**
 * The tarball of this platform's compiled files, where `yarn package` has put it beside hone's: package by its path from the
 * project, as npm's `optionalDependencies` have it.
 */
export function besideOf(dependency: string, folder: string): Record<string, string> {
  const [, place, version] = /^file:(.*?)hone-rl-hone-([^/\\]+)\.tgz$/.exec(dependency) ?? [];
  if (place === undefined) return {};
  const tarball = `${place}${platformPackage.slice(1).replace("/", "-")}-${version}.tgz`;
  return existsSync(join(folder, tarball)) ? { [platformPackage]: `file:${tarball}` } : {};
}

function write(file: string, content: string, replaces: boolean): void {
  // "wx": a file created in the meantime is not overwritten either.
  if (replaces) writeDurably(file, content);
  else writeFileSync(file, content, { flag: "wx" });
}

/** @returns the names of the written files, in order */
export function writeProject({ folder, package: before, unpacked }: Ground, project: Project): string[] {
  mkdirSync(folder, { recursive: true });
  const files = filesOf(project, unpacked);
  for (const [name, content] of Object.entries(files)) {
    write(join(folder, name), content, unpacked !== undefined && name === "hone.config.json");
  }
  write(join(folder, "package.json"), packageJson(project, before), before !== undefined);
  return ["package.json", ...Object.keys(files)].sort();
}
