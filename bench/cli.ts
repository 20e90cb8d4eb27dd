/** Runs hone's own commands as parts of a measurement. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { HoneError } from "../src/core/util/errors.js";
import { packageRoot } from "../src/core/util/paths.js";
import type { BenchContext } from "./row.js";

/** Runs a command of hone, with its output on stderr. */
export function hone(context: BenchContext, ...args: string[]): Promise<void> {
  context.log(`hone ${args.join(" ")}`);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], {
      stdio: ["ignore", process.stderr, process.stderr],
    });
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve();
      else reject(new HoneError(`hone ${args[0]} ended with code ${code}`));
    });
  });
}
