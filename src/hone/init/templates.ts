/** The files of a new project: a task with ten questions that suits the tiny model, and the commands for going on. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DEFAULT_MODEL } from "../../core/config/defaults.js";
import { packageRoot } from "../../core/util/paths.js";

export interface Project {
  /** Name of the package. */
  readonly name: string;
  /** The version of hone to install: a tarball's path, or a published version. */
  readonly hone: string;
  /** Tarballs that are installed with it, by package, where they can be. */
  readonly beside?: Readonly<Record<string, string>>;
  /** The model that `npm run train` trains. */
  readonly model: string;
}

const PACKAGE = "@hone-rl/hone";

export const scriptsOf = ({ model }: Pick<Project, "model">) => ({
  check: "hone check",
  train: `hone train${model === DEFAULT_MODEL ? "" : ` --model ${/^[\w@%+=:,./-]+$/.test(model) ? model : JSON.stringify(model)}`}`,
  hone: "hone",
});

/** The task is one of the examples, which ship. */
const example = (name: string) => readFileSync(join(packageRoot, "examples/capitals", name), "utf8");

/** Small enough to finish in a minute or two on a CPU. */
const config = { task: "task.ts", steps: 3, groupsPerStep: 4, groupSize: 6, validateN: 2, maxTokens: 48 };

const compilerOptions = {
  target: "es2023",
  lib: ["es2023", "dom"],
  module: "esnext",
  moduleResolution: "bundler",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
};

const readme = ({ name, model }: Project) => `# ${name}

\`task.ts\` is what a model learns: its questions (\`scenarios.jsonl\`), its prompt, its reward. \`hone.config.json\` has the options, for
short answers: a task with longer ones, or an agent, needs another \`maxTokens\`.

    npm install
    npm run check              # what would make training useless, found before it
    npm run train              # ${model === DEFAULT_MODEL ? "a smoke test: three steps with hone's tiny model, which knows no capitals" : `three steps with ${model}`}
    npm run train -- --run real --model qwen2.5-0.5b --steps 50        # a real model; \`npm run hone -- models\` lists names
    npm run hone -- view       # the runs as a page; \`npm run hone -- --help\` lists all commands
`;

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

/** Content by file name, without package.json, which npm may have created already. */
export const filesOf = (project: Project, options: object = {}): Readonly<Record<string, string>> => ({
  "task.ts": example("task.ts"),
  "scenarios.jsonl": example("scenarios.jsonl"),
  "hone.config.json": json({ ...config, ...options }),
  "tsconfig.json": json({ compilerOptions, include: ["*.ts"] }),
  ".gitignore": "node_modules\n.hone\n",
  "README.md": readme(project),
});

export interface PackageJson {
  readonly name?: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The version of hone in package.json's dependencies; undefined without one. */
export const honeOf = ({ dependencies }: PackageJson): string | undefined => dependencies?.[PACKAGE];

/** Writes package.json, keeping all fields of an existing one except its type. */
export function packageJson(project: Project, before: PackageJson = {}): string {
  const { name, hone, beside = {} } = project;
  const optional = { ...before.optionalDependencies, ...beside };
  return json({
    ...(honeOf(before) === undefined ? { name, private: true, ...before } : before),
    // As task.ts is written. `npm install` leaves it out and `npm init` writes "commonjs", before there is any source.
    type: "module",
    scripts: { ...scriptsOf(project), ...before.scripts },
    dependencies: { ...before.dependencies, [PACKAGE]: hone },
    ...(Object.keys(optional).length > 0 ? { optionalDependencies: optional } : {}),
  });
}
