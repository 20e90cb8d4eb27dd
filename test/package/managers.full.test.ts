/** What stands in npm's registry, installed by each package manager without scripts: hone runs from there. */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { platformPackage } from "../../src/core/util/binaries.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { serveRegistry } from "./registry.js";
import { aPackage, pack, platformFolder, run, writePrograms } from "./support.js";

const { packFolder } = await import(join(packageRoot, "scripts/package/run.mjs"));
const reached = await run("npm", ["view", "npm@11.21.2", "version"]);
const why = reached.status === 0 ? "" : " (skipped: npm's registry cannot be reached)";

interface Manager {
  readonly name: string;
  /** A package of npm's registry that has its program. */
  readonly from: string;
  readonly program: string;
  readonly add: readonly string[];
  /** Words before a command of an installed package; by default its link is started. */
  readonly exec?: readonly string[];
}
const managers: readonly Manager[] = [
  { name: "npm 11", from: "npm@11.21.2", program: "npm", add: ["install", "--ignore-scripts", "--no-audit"] },
  { name: "pnpm 10", from: "pnpm@10.34.9", program: "pnpm", add: ["add", "--ignore-scripts"] },
  { name: "bun", from: "bun@1.4.5", program: "bun", add: ["add", "--ignore-scripts"] },
  { name: "yarn 4", from: "@yarnpkg/cli-dist@4.18.1", program: "yarn", add: ["add"], exec: ["hone"] },
];

describe.skipIf(why !== "")(`hone's packages by other package managers${why}`, () => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "hone-managers-")));
  // The test's own runner must not be taken for the one that the stranger has.
  const { npm_config_user_agent: _, XDG_CACHE_HOME: __, ...environment } = process.env;
  const env = { ...environment, HOME: join(base, "home") };
  /**
   * Yarn takes no package from inside another, and stops where one for another system is not to be had. npm, pnpm and Bun, which do
   * and go on, do not read these.
   */
  const lib = join(packageRoot, "node_modules/node-llama-cpp/package.json");
  const libraries = Object.keys(JSON.parse(readFileSync(lib, "utf8")).optionalDependencies);
  const elsewhere = libraries.filter((name) => name !== `@node-llama-cpp/${process.platform}-${process.arch}`);
  const empty = `file:${join(packageRoot, "scripts/no-prebuilt")}`;
  const resolutions = Object.fromEntries(elsewhere.map((name) => [name, empty]));
  let server: Server;
  let url: string;
  beforeAll(async () => {
    mkdirSync(join(base, "home"));
    const { tarball } = await pack(base);
    const { status, said } = await run("tar", ["xzOf", tarball, "package/package.json"]);
    expect(status, said).toBe(0);
    const manifest = JSON.parse(said);
    const compiled = platformFolder(join(base, "compiled"), manifest.version);
    const about = JSON.parse(readFileSync(join(compiled, "package.json"), "utf8"));
    const others = Object.keys(manifest.optionalDependencies).filter((name) => name.startsWith("@hone-rl/"));
    ({ server, url } = await serveRegistry([
      { manifest, tarball },
      { manifest: about, tarball: packFolder(compiled, base) },
      ...others
        .filter((name) => name !== platformPackage)
        .map((name) => ({ manifest: { name, version: manifest.version, os: ["none"] } })),
    ]));
  });
  afterAll(async () => {
    server?.close();
    await rm(base, { recursive: true, force: true });
  });

  it.each(managers)(
    "$name: doctor, check and a rollout of the tiny model",
    async ({ name, from, program, add, exec }) => {
      const folder = join(base, name.replace(" ", "-"));
      mkdirSync(folder);
      writeFileSync(join(folder, "package.json"), JSON.stringify({ ...JSON.parse(aPackage), resolutions }));
      writeFileSync(join(folder, ".npmrc"), `@hone-rl:registry=${url}/\n`);
      writeFileSync(
        join(folder, ".yarnrc.yml"),
        `npmScopes: { hone-rl: { npmRegistryServer: "${url}" } }\nunsafeHttpWhitelist: ["127.0.0.1"]\nenableScripts: false\nenableTelemetry: false\nenableGlobalCache: false\nnodeLinker: node-modules\n`,
      );
      // Without it Yarn takes the folder for a part of a project above.
      writeFileSync(join(folder, "yarn.lock"), "");
      writePrograms(folder);
      const by = (...args: string[]) => run("npx", ["--yes", "-p", from, program, ...args], env, folder);
      const added = await by(...add, "@hone-rl/hone");
      expect(added.status, added.said).toBe(0);
      const link = join(folder, "node_modules/.bin/hone");
      const hone = (...args: string[]) => (exec ? by(...exec, ...args) : run(link, args, env, folder));
      const doctor = await hone("doctor", "--gpu", "off");
      expect(doctor.said).toContain("all is well");
      const checked = await hone("check", "task.ts", "--n", "1");
      expect(checked.said).toContain("echo: 2 train and 2 test scenarios");
      const few = ["--n", "1", "--group-size", "1", "--context", "1024", "--max-tokens", "8"];
      const played = await hone("rollout", "--task", "task.ts", "--model", "tiny", "--gpu", "off", ...few);
      expect(played.said).toContain("1 rollouts in 1 groups");
    },
  );
});
