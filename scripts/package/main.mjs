// `yarn package`: makes the tarballs of a release in build/packages, with SHA256SUMS: @hone-rl/hone, and for each platform a
// package of what is compiled for it. `--only NAME` (hone, linux-x64 ...; repeatable) makes some of them; without it, hone and
// all platforms that can be compiled for here. `--as-built` packs the JavaScript that was built last.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { compile } from "./compile.mjs";
import { aboutOf, json, layOutHone } from "./hone.mjs";
import { buildable, PLATFORMS, SCOPE } from "./platforms.mjs";
import { out, PackageError, packFolder, root, run, work } from "./run.mjs";

const log = (line) => console.error(`hone: ${line}`);

function platformPackage(platform) {
  const { name, os, cpu, libc, llama } = platform;
  const folder = join(work, name, "package");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const files = compile(platform, folder, log);
  const { version, license, publishConfig, engines, dependencies } = aboutOf(root);
  for (const file of ["LICENSE", "THIRD-PARTY.md"]) copyFileSync(join(root, file), join(folder, file));
  writeFileSync(
    join(folder, "README.md"),
    `# ${SCOPE}/${name}\n\nCompiled files of ${SCOPE}/hone ${version} for ${os} on ${cpu}: the engine's addon (\`hone_engine.node\`), and SQLite for each\nversion of Node's binary interface (\`better_sqlite3-*.node\`). ${SCOPE}/hone installs it.\n`,
  );
  const about = {
    name: `${SCOPE}/${name}`,
    version,
    description: `Compiled files of ${SCOPE}/hone for ${os} on ${cpu}`,
    license,
    publishConfig,
    engines,
    os: [os],
    cpu: [cpu],
    ...(libc ? { libc: [libc] } : {}),
    files: [...files, "THIRD-PARTY.md"],
    preferUnplugged: true,
    dependencies: { [llama]: dependencies["node-llama-cpp"] },
  };
  writeFileSync(join(folder, "package.json"), json(about));
  return packFolder(folder, out);
}

async function honePackage(asBuilt) {
  if (!asBuilt) run(process.execPath, [join(root, "scripts/postinstall.mjs"), "--anew"]);
  const folder = join(work, "hone");
  await layOutHone(folder);
  return packFolder(folder, out);
}

/** Sums of all tarballs there, those of earlier calls too. */
function writeSums() {
  const names = readdirSync(out).filter((name) => name.endsWith(".tgz"));
  const line = (name) =>
    `${createHash("sha256")
      .update(readFileSync(join(out, name)))
      .digest("hex")}  ${name}\n`;
  writeFileSync(join(out, "SHA256SUMS"), names.sort().map(line).join(""));
}

async function main() {
  const { values } = parseArgs({
    options: { only: { type: "string", multiple: true }, "as-built": { type: "boolean", default: false } },
  });
  const names = values.only ?? ["hone", ...buildable().map(({ name }) => name)];
  const platforms = buildable().filter(({ name }) => names.includes(name));
  const lacking = names.filter((name) => name !== "hone" && !platforms.some((one) => one.name === name));
  if (lacking.length > 0) {
    const known = PLATFORMS.map(({ name }) => name).join(", ");
    throw new PackageError(`${lacking.join(", ")} cannot be compiled here (there are hone, ${known})`);
  }
  mkdirSync(out, { recursive: true });
  const made = platforms.map(platformPackage);
  if (names.includes("hone")) made.push(await honePackage(values["as-built"]));
  writeSums();
  for (const file of made) console.log(`${basename(file)} ${(statSync(file).size / 1e6).toFixed(1)} MB`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof PackageError)) throw error;
  log(error.message);
  process.exit(1);
}
