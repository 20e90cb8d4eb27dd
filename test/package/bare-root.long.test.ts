/** The tarballs in an empty Debian, without compiler and git: installed, begun with `hone init`, and played. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { run } from "./support.js";

const here = `linux-${process.arch}`;
const works = (program: string, ...args: string[]) => spawnSync(program, args, { stdio: "ignore" }).status === 0;
/** Why it cannot be tried here; "" where it can. */
function lack(): string {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "only root can make a system";
  if (!works("which", "debootstrap")) return "debootstrap is missing";
  const zig = process.env.HONE_ZIG
    ? works(process.env.HONE_ZIG, "version")
    : works("python3", "-m", "ziglang", "version");
  return zig ? "" : "zig is missing: pip install ziglang==0.17.1";
}
const why = lack();

const folder = mkdtempSync(join(tmpdir(), "hone-bare-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }), 300_000);

it.skipIf(why !== "")(
  `hone installs and plays where nothing is but Node and Python${why && ` (skipped: ${why})`}`,
  async () => {
    const names = ["--only", "hone", "--only", here];
    const packed = await run(process.execPath, ["scripts/package/main.mjs", "--as-built", ...names]);
    expect(packed.status, packed.said).toBe(0);
    const packages = join(packageRoot, "build/packages");
    const tarballs = readdirSync(packages).filter((name) => name.startsWith("hone-rl-hone-") || name.includes(here));
    const root = ["scripts/bare-root.sh", join(folder, "root")];
    const { status, said } = await run("bash", [...root, ...tarballs.map((name) => join(packages, name))]);
    expect(status, said).toBe(0);
    expect(said).toMatch(/^rollout +\d+ +\d+$/m);
  },
);
