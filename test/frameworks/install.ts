/**
 * The frameworks, installed once in hone's folder of caches: none of them is a dependency of hone. JavaScript's versions are
 * those of the two package-lock.json of packages/, Python's those of its requirements*.txt.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { withLock } from "../../src/core/util/lock.js";
import { cacheHome, packageRoot } from "../../src/core/util/paths.js";
import { lastLine, run } from "../../src/core/util/run.js";
import { interpreterIn } from "../../src/engine/device/environment.js";
import { PIP } from "../../src/machine/python/install.js";
import { findPython, makeVenv } from "../../src/machine/python/interpreter.js";

export interface Installed {
  /**
   * Has `node_modules`, here and in `ai-6`, Python's environments, in `sources` the Python packages that ship examples beside their code, and in `repositories`
   * examples that no package ships, where their hosts can be reached.
   */
  readonly folder: string;
  /** Interpreters that have the packages: some frameworks ask for older versions of others' than the rest. */
  readonly pythons: Readonly<Record<PythonPackages, string>>;
}

const packages = join(packageRoot, "test/frameworks/packages");
/** Python's lists of packages, each of an environment of its own. */
const requirements = {
  python: "requirements.txt",
  "python-openai-2": "requirements-openai-2.txt",
  "python-adk": "requirements-adk.txt",
  "python-crewai": "requirements-crewai.txt",
} as const;
export type PythonPackages = keyof typeof requirements;
const pythonNames = Object.keys(requirements) as PythonPackages[];
/** JavaScript's lists, each of a `node_modules` of its own, by folder: frameworks need versions 6 and 7 of the AI SDK. */
const javaScriptFolders = ["", "ai-6"];
const javaScriptLists = (folder: string) => ["package.json", "package-lock.json"].map((name) => join(folder, name));
const lists = [...javaScriptFolders.flatMap(javaScriptLists), ...Object.values(requirements)];

async function must(command: string, args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await run(command, args);
  if (code !== 0) throw new HoneError(`${command} ${args.slice(0, 3).join(" ")}: ${lastLine(stderr || stdout)}`);
}

async function installJavaScript(base: string, name: string): Promise<void> {
  const folder = join(base, name);
  mkdirSync(folder, { recursive: true });
  for (const list of javaScriptLists(name)) writeFileSync(join(base, list), readFileSync(join(packages, list)));
  // --force: some ask for a newer Node than the oldest that hone runs on, and run on that one, too.
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  await must("npm", ["ci", "--prefix", folder, "--force", "--ignore-scripts", ...quiet]);
}

async function installPython(folder: string, name: PythonPackages): Promise<void> {
  const environment = join(folder, name);
  await makeVenv(await findPython(), environment);
  const list = join(packages, requirements[name]);
  const without = ["--no-deps", "--no-compile", "--quiet"];
  await must(interpreterIn(environment), [...PIP, "install", ...without, "-r", list]);
}

/** Source distributions, which have the examples of their repositories; wheels do not. */
async function fetchSources(folder: string): Promise<void> {
  const python = interpreterIn(join(folder, "python"));
  const sources = join(folder, "sources");
  const pins =
    readFileSync(join(packages, "requirements.txt"), "utf8").match(/^(openai-agents|anthropic)==.*$/gm) ?? [];
  await must(python, [...PIP, "download", "--no-deps", "--no-binary=:all:", "--quiet", "--dest", sources, ...pins]);
  for (const archive of readdirSync(sources)) {
    await must(python, ["-m", "tarfile", "--extract", join(sources, archive), sources]);
  }
}

/** Examples that no package ships: a file of a public repository, at a commit. */
const ofRepositories = [
  {
    as: "smolagents/agent_from_any_llm.py",
    // The tag v1.26.0.
    url: "https://raw.githubusercontent.com/huggingface/smolagents/12c1bc820eca50ace6f80a21d90426d41d74f845/examples/agent_from_any_llm.py",
    sha256: "e45b9a62cb38184f0c0f62b495c91745e8af8b3771578470822c4625653e7a18",
  },
];

/** What cannot be had now is asked for again the next time. */
async function fetchExamples(folder: string): Promise<void> {
  for (const { as, url, sha256 } of ofRepositories) {
    const file = join(folder, "repositories", as);
    if (existsSync(file)) continue;
    const answer = await fetch(url, { signal: AbortSignal.timeout(20_000) }).catch(() => undefined);
    if (!answer?.ok) continue;
    const text = await answer.text();
    if (createHash("sha256").update(text).digest("hex") !== sha256) throw new HoneError(`${url} has changed`);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
  }
}

/** @throws HoneError with the reason where they cannot be had */
export async function installFrameworks(): Promise<Installed> {
  const hash = createHash("sha256").update(process.version.split(".")[0] as string);
  for (const list of lists) hash.update(readFileSync(join(packages, list)));
  const folder = join(cacheHome(), "hone", `frameworks-${hash.digest("hex").slice(0, 12)}`);
  const stamp = join(folder, "installed");
  mkdirSync(join(folder, ".."), { recursive: true });
  await withLock(
    `${folder}.lock`,
    () => undefined,
    async () => {
      if (existsSync(stamp)) return fetchExamples(folder);
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      const pythons = pythonNames.map((name) => installPython(folder, name));
      await Promise.all([...javaScriptFolders.map((name) => installJavaScript(folder, name)), ...pythons]);
      await fetchSources(folder);
      await fetchExamples(folder);
      writeFileSync(stamp, "");
    },
  );
  const interpreters = pythonNames.map((name) => [name, interpreterIn(join(folder, name))]);
  return { folder, pythons: Object.fromEntries(interpreters) as Installed["pythons"] };
}
