/** A folder with hone installed from its tarball, as a stranger has it. */
import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addonFile, platformPackage, sqliteFile } from "../../src/core/util/binaries.js";
import { packageRoot } from "../../src/core/util/paths.js";

const { layOutHone } = await import(join(packageRoot, "scripts/package/hone.mjs"));
const { packFolder } = await import(join(packageRoot, "scripts/package/run.mjs"));

/** Hone's tarball as `yarn package` makes it, of what `yarn test` has built. */
export async function pack(folder: string): Promise<{ tarball: string; files: string[] }> {
  const laidOut = join(folder, "laid-out");
  await layOutHone(laidOut);
  const tarball: string = packFolder(laidOut, folder);
  rmSync(laidOut, { recursive: true });
  const listed = spawnSync("tar", ["tzf", tarball], { encoding: "utf8", maxBuffer: 1 << 26 });
  if (listed.status !== 0) throw new Error(`tar: ${listed.stderr}`);
  return {
    tarball,
    files: listed.stdout
      .trim()
      .split("\n")
      .map((path) => path.replace(/^package\//, "")),
  };
}

/** A package of this platform's compiled files, those that were compiled here. */
export function platformFolder(folder: string, version: string): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: platformPackage, version }));
  copyFileSync(addonFile(), join(folder, "hone_engine.node"));
  copyFileSync(sqliteFile(), join(folder, `better_sqlite3-${process.versions.modules}.node`));
  return folder;
}

export const aPackage = '{ "name": "stranger", "private": true, "type": "module" }\n';

/** Unpacks the tarball beside the dependencies of this checkout, and a package of what is compiled here. */
export async function unpacked(): Promise<{ folder: string; files: string[]; bytes: number }> {
  const folder = mkdtempSync(join(tmpdir(), "hone-package-"));
  const modules = join(folder, "node_modules");
  const into = join(modules, "@hone-rl/hone");
  mkdirSync(into, { recursive: true });
  const { tarball, files } = await pack(folder);
  const untar = spawnSync("tar", ["xzf", tarball, "-C", into, "--strip-components=1"], { encoding: "utf8" });
  if (untar.status !== 0) throw new Error(`tar: ${untar.stderr}`);
  const about = JSON.parse(readFileSync(join(into, "package.json"), "utf8")) as {
    version: string;
    dependencies: Record<string, string>;
    optionalDependencies: Record<string, string>;
    bundleDependencies: string[];
  };
  const here = join(packageRoot, "node_modules");
  const needed = Object.keys({ ...about.dependencies, ...about.optionalDependencies });
  // Their own dependencies are found from where they really lie.
  // Types of Node come with those of better-sqlite3.
  for (const name of [...needed, "@types/node"]) {
    if (about.bundleDependencies.includes(name) || !existsSync(join(here, name))) continue;
    mkdirSync(join(modules, name, ".."), { recursive: true });
    symlinkSync(join(here, name), join(modules, name));
  }
  platformFolder(join(modules, platformPackage), about.version);
  writeFileSync(join(folder, "package.json"), aPackage);
  return { folder, files, bytes: statSync(tarball).size };
}

/** Runs the package's command in a folder. */
export function honeIn(folder: string, ...args: string[]) {
  const cli = join(folder, "node_modules/@hone-rl/hone/dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

/** Checks the types of the folder's programs against the package's, as a project of our days would. */
export function typeErrors(folder: string): string {
  const programs = readdirSync(folder).filter((name) => name.endsWith(".ts"));
  const compilerOptions = {
    module: "nodenext",
    target: "es2022",
    lib: ["es2022", "dom"],
    strict: true,
    noEmit: true,
    // The package's own declarations too, and those that they import.
    skipLibCheck: false,
    types: [],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: programs }));
  const tsc = join(packageRoot, "node_modules/.bin/tsc");
  const { stdout, stderr } = spawnSync(tsc, ["-p", folder], { cwd: folder, encoding: "utf8" });
  return stdout + stderr;
}

/** A task and a program that a stranger writes; nothing is imported but the package. */
export function writePrograms(folder: string, task = "task.ts"): void {
  writeFileSync(
    join(folder, task),
    `import { defineTask, type Scenario, z } from "@hone-rl/hone";

const options = z.object({ count: z.int().default(4).describe("how many") });

export default defineTask<Scenario, undefined, typeof options>({
  name: "echo",
  options,
  scenarios: ({ count, seed }) =>
    Array.from({ length: count }, (_, i) => ({
      id: \`echo-\${seed}-\${i}\`,
      split: i % 2 === 0 ? ("train" as const) : ("test" as const),
      question: \`Say \${i}.\`,
    })),
  prompt: ({ question }) => [{ role: "user", content: question }],
  reward: ({ answer }, { question }) => {
    const success = question.includes(String(answer?.text));
    return { reward: success ? 1 : 0, success, parts: {} };
  },
  *expert({ question }) {
    yield question.replace(/\\D/g, "");
  },
});
`,
  );
  writeFileSync(
    join(folder, "program.ts"),
    `import { evaluate, gather, type Model, openModel, openTask, type Trajectory } from "@hone-rl/hone";

const length = ({ messages }: Trajectory): number => messages.length;
const task = await openTask("${task}", { set: { count: 2 }, seed: 5 });
const model: Model = await openModel("tiny", { gpu: "off", threads: 1, context: 128, maxTokens: 4, maxTurns: 1 });
try {
  const { groups } = await gather(model, task, task.train, { groupSize: 2 });
  const { n } = await evaluate(model, task, task.test);
  console.log(JSON.stringify({ ids: task.scenarios.map(({ id }) => id), lengths: groups.flat().map(length), n }));
} finally {
  await model.close();
}
`,
  );
  writeFileSync(
    join(folder, "wrong.ts"),
    `import { openModel, openTask } from "@hone-rl/hone";

await openModel("tiny", { temprature: 1 });
await openTask(5);
`,
  );
}

/** Not spawnSync: a worker of Vitest that hears nothing for minutes is taken for dead. */
export function run(
  program: string,
  args: readonly string[],
  env = process.env,
  cwd = packageRoot,
): Promise<{ status: number | null; said: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
    }
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, said }));
  });
}
