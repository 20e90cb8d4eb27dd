/** Runs shell blocks as they are written, in a folder that has the examples and the page's own programs. */
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import { shareEnvironments } from "../support/environments.js";
import { type Block, blocksOf, commandsOf } from "./blocks.js";
import { manifest } from "./parse.js";

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** `yarn` without yarn and without compiling: hone's own commands as package.json has them. */
function yarnStandIn(): string {
  const cli = join(packageRoot, "dist/src/cli.js");
  const cases = Object.entries(manifest.scripts).flatMap(([name, body]) => {
    const [, command] = /node dist\/src\/cli\.js ?(.*)$/.exec(body) ?? [];
    return command === undefined
      ? []
      : [`${name}) shift; exec ${quoted(process.execPath)} ${quoted(cli)} ${command} "$@" ;;`];
  });
  return `#!/bin/sh\ncase "$1" in\n${cases.join("\n")}\n*) echo "yarn $1 cannot be run here" >&2; exit 127 ;;\nesac\n`;
}

/** A folder for the blocks of one page. */
export function folderOf(page: string): string {
  const folder = mkdtempSync(join(tmpdir(), "hone-docs-"));
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin/yarn"), yarnStandIn());
  chmodSync(join(folder, "bin/yarn"), 0o755);
  symlinkSync(join(packageRoot, "examples"), join(folder, "examples"));
  shareEnvironments(folder);
  for (const { treatment, name, text } of blocksOf(page)) {
    if (treatment === "file") writeFileSync(join(folder, name), `${text}\n`);
  }
  return folder;
}

export interface Ran {
  readonly line: string;
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the lines one after the other, up to the first that fails. */
export async function runBlock(block: Block, folder: string, env: Record<string, string>): Promise<Ran[]> {
  const path = [join(folder, "bin"), process.env.PATH].join(delimiter);
  const all: Ran[] = [];
  for (const line of commandsOf(block)) {
    const child = spawn("/bin/sh", ["-c", line], { cwd: folder, env: { HOME: folder, ...env, PATH: path } });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
    all.push({ line, status, stdout, stderr });
    if (status !== 0) break;
  }
  return all;
}
