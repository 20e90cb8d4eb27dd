// Compiles src/ and bench/ to dist/ and the addon to build/, which the scripts of package.json do before they start something of
// them: a pull may have changed either. Does nothing where neither a file nor Node has changed since: asking tsc takes seconds.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stamp = join(root, "dist/.compiled");

/** Of Node's binary interface, the compiler's settings, the packages, and all sources; bench/ imports some of test/. */
function fingerprint() {
  const sources = ["src", "bench", "test", "native/engine"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => /(ts|\.cc|\.h)$/.test(name))
      .map((name) => join(folder, name)),
  );
  const hash = createHash("sha256").update(process.versions.modules);
  for (const name of ["tsconfig.json", "tsconfig.build.json", "package.json", "yarn.lock", ...sources.sort()]) {
    const { mtimeMs, size } = statSync(join(root, name));
    hash.update(`${name} ${mtimeMs} ${size}\n`);
  }
  return hash.digest("hex");
}

const now = fingerprint();
if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== now) {
  for (const args of [["scripts/build-addon.mjs"], ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"]]) {
    const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, now);
}
