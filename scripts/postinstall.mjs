// Builds dist/ in a checkout. The npm package contains it built, without the compilers. `--anew` (before packing)
// builds from scratch, so that no stale module is packed.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

if (existsSync(join(root, "tsconfig.build.json"))) {
  if (process.argv.includes("--anew")) rmSync(join(root, "dist"), { recursive: true, force: true });
  for (const [program, ...args] of [
    [process.execPath, "scripts/compile.mjs"],
    [join(root, "node_modules/.bin/vite"), "build", "--config", "web/vite.config.ts"],
  ]) {
    const { status } = spawnSync(program, args, { cwd: root, stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
}
