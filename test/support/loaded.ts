/** Which files of `src` a command loads, in all its threads. */
import { spawnSync } from "node:child_process";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../src/core/util/paths.js";

const cli = join(packageRoot, "dist/src/cli.js");
const data = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
const hook = `import { writeSync } from "node:fs";
  export const load = (url, context, next) => (writeSync(2, "\\nloaded " + url + "\\n"), next(url, context));`;
const recorder = data(`import { register } from "node:module"; register(${JSON.stringify(data(hook))});`);

/** @returns paths from `src`, as `train/step.js`, and what was printed */
export function loadedBy(...args: string[]): { files: string[]; stdout: string } {
  const NODE_OPTIONS = `--import ${JSON.stringify(recorder)}`;
  const { stdout, stderr } = spawnSync(process.execPath, [cli, ...args], {
    encoding: "utf8",
    maxBuffer: 64 << 20,
    env: { ...process.env, NODE_OPTIONS },
  });
  const urls = [...stderr.matchAll(/^loaded (file:.*)$/gm)].map(([, url]) => fileURLToPath(url as string));
  const own = urls.map((path) => relative(dirname(cli), path)).filter((path) => !path.startsWith(".."));
  return { files: [...new Set(own.map((path) => path.split(sep).join("/")))].sort(), stdout };
}

/** Files of judges, agents, MCP servers, and scenarios that are made: what a command loads when it was chosen. */
export const UNCHOSEN =
  /^(judge\/(?!judging-options)[^/]+|judge\/reward\/(judge|judged|local-judge|noise)|agent\/(?!servers\.).*|scenarios\/(sources|logs|generate|look|questions).*)\.js$/;
