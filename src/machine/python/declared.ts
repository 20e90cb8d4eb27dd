/** What pyproject.toml asks for, and the versions that requirements.lock has for it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import { z } from "zod";
import { packageRoot } from "../../core/util/paths.js";
import { lockFile } from "../../engine/device/environment.js";

const schema = z.object({
  project: z.object({
    "requires-python": z.string(),
    dependencies: z.array(z.string()),
    "optional-dependencies": z.record(z.string(), z.array(z.string())),
  }),
  tool: z.object({ uv: z.object({ index: z.array(z.object({ name: z.string(), url: z.string() })) }) }),
});

const declared = () => schema.parse(parse(readFileSync(join(packageRoot, "pyproject.toml"), "utf8")));

/** ">=3.10,<3.15" */
export const pythonVersions = () => declared().project["requires-python"];

/** The package index that a build of PyTorch has of its own. */
export const declaredIndex = (name: string) => declared().tool.uv.index.find((one) => one.name === name)?.url;

/** The packages that are asked for by name, of the learner or of an extra: versions by name. */
export function pinned(extra?: string): ReadonlyMap<string, string> {
  const { dependencies, "optional-dependencies": extras } = declared().project;
  const pins = (extra === undefined ? dependencies : (extras[extra] ?? [])).map((pin) => pin.split("=="));
  return new Map(pins.map(([name = "", version = ""]) => [name, version]));
}

/** A package of the lock file: with its condition and the hashes of its files, as pip and uv read it. */
export interface Locked {
  readonly name: string;
  readonly version: string;
  readonly text: string;
}

/** The packages of these extras; "base" are the learner's. */
export function locked(extras: readonly string[]): Locked[] {
  const blocks = readFileSync(lockFile(), "utf8").split("\n# of: ").slice(1);
  return blocks.flatMap((block) => {
    const [tags = "", ...lines] = block.split("\n");
    if (!tags.split(" ").some((tag) => extras.includes(tag))) return [];
    return locksIn(lines.join("\n"));
  });
}

/** The packages of a lock file's text. */
export function locksIn(text: string): Locked[] {
  const packages = text.matchAll(/^(\S+?)==([^\s;]+)(?:.*\\\n)*.*/gm);
  return [...packages].map(([text, name = "", version = ""]) => ({ name, version, text }));
}
