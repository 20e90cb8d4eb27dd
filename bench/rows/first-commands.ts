/** README's first two commands in a new clone, with an empty home folder: nothing is cached, packages are downloaded. */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "first-commands",
  about: "README's first two commands in a new clone of the last commit with an empty home: installation and training",
  models: [],
  async run(context) {
    const folder = mkdtempSync(join(tmpdir(), "hone-first-"));
    try {
      const home = join(folder, "home");
      mkdirSync(home);
      const cloned = spawnSync("git", ["clone", "--quiet", packageRoot, join(folder, "hone")], { stdio: "inherit" });
      if (cloned.status !== 0) throw new HoneError("git clone failed");
      const rows: Row[] = [];
      for (const command of firstCommands()) {
        context.log(command);
        const ours = await timed(command, join(folder, "hone"), home);
        const about = { model: "tiny", sequences: null, theirs: null, ratio: null, target: "", unit: "ms" as const };
        rows.push({ ...about, name: `first-commands ${command.split(" ")[3]}`, ours, note: command });
      }
      return rows;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

/** As README's first block has them, one after the other. */
function firstCommands(): string[] {
  const [, line] = /```sh parsed\n(.+)\n/.exec(readFileSync(join(packageRoot, "README.md"), "utf8")) ?? [];
  if (line === undefined) throw new HoneError("README has no block of commands");
  return line.split(" && ");
}

/** Milliseconds until a command has ended, without what the user's own environment names as caches and settings. */
function timed(command: string, cwd: string, home: string): Promise<number> {
  const started = performance.now();
  const kept = Object.entries(process.env).filter(([name]) => !/^(HOME|XDG_|HONE_|npm_|TORCHINDUCTOR_)/.test(name));
  return new Promise((resolve, reject) => {
    const env = { ...Object.fromEntries(kept), HOME: home };
    const child = spawn("sh", ["-c", command], { cwd, env, stdio: ["ignore", process.stderr, process.stderr] });
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(performance.now() - started);
      else reject(new HoneError(`${command} ended with code ${code}`));
    });
  });
}
