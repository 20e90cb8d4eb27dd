/**
 * README's way on a machine with NVIDIA's driver, from nothing: an empty Debian with the packages that README names, hone installed
 * by npm from its tarball, PyTorch for CUDA by `doctor --install`, and a step trained and committed on a null card.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { addonFile, platformPackage, sqliteFile } from "../../src/core/util/binaries.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { pack, run } from "./support.js";

const { packFolder } = await import(join(packageRoot, "scripts/package/run.mjs"));
const { aboutOf } = await import(join(packageRoot, "scripts/package/hone.mjs"));

const works = (program: string, ...args: string[]) => spawnSync(program, args, { stdio: "ignore" }).status === 0;
/** Why it cannot be tried here; "" where it can. */
function lack(): string {
  if (process.getuid?.() !== 0) return "only root can make a system";
  if (!works("unshare", "--mount", "--pid", "--fork", "true")) return "this user may not mount";
  return works("which", "debootstrap") ? "" : "debootstrap is missing: scripts/debootstrap.sh";
}
const why = lack();

const folder = mkdtempSync(join(tmpdir(), "hone-bare-card-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }), 300_000);

/** The package of what is compiled here, for a Debian like this one. */
function packPlatform(): string {
  const { version, dependencies } = aboutOf(packageRoot);
  const laidOut = join(folder, "platform");
  mkdirSync(laidOut);
  const llama = platformPackage.replace(/^.*\//, "@node-llama-cpp/");
  const about = { name: platformPackage, version, dependencies: { [llama]: dependencies["node-llama-cpp"] } };
  writeFileSync(join(laidOut, "package.json"), JSON.stringify(about));
  copyFileSync(addonFile(), join(laidOut, "hone_engine.node"));
  copyFileSync(sqliteFile(), join(laidOut, `better_sqlite3-${process.versions.modules}.node`));
  return packFolder(laidOut, folder);
}

function bareRoot(tarballs: readonly string[]) {
  const args = ["scripts/bare-root.sh", join(folder, "root"), "--card", ...tarballs];
  return run("bash", args, { ...process.env, NODE: process.versions.node });
}

it.skipIf(why !== "")(
  `an empty Debian with README's packages and a null card goes from npm install to a committed step${why && ` (skipped: ${why})`}`,
  async () => {
    const { tarball } = await pack(folder);
    const { status, said } = await bareRoot([tarball, packPlatform()]);
    expect(status, said).toBe(0);
    for (const step of ["install", "python", "train", "committed"])
      expect(said).toMatch(new RegExp(`^${step} +\\d+ +-?\\d+$`, "m"));
  },
  // PyTorch for CUDA and its libraries are 5 GB.
  2_400_000,
);
