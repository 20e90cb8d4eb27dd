/** Packs hone as it is installed here, with all that it would get from the network, for a machine that has none. */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Config, OptionOf } from "../../core/config/config.js";
import { readSize } from "../../core/config/option.js";
import { addonFile } from "../../core/util/binaries.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { aboutPackage, packageRoot } from "../../core/util/paths.js";
import { isInstalled, reinstall } from "../../core/util/program.js";
import { WHEELS_FOLDER } from "../../engine/device/environment.js";
import { fetchLibraries, librariesFolder } from "../../engine/libraries.js";
import { checkPlace, type FolderKind, OUT_ELSEWHERE, writeFolder } from "../export/place.js";
import type { ModelIo } from "../models/io.js";
import { PORTABLE, type PortableModel, portableModel } from "../models/portable.js";
import { needDisk } from "../plan/machine.js";
import { archiveBytes, bytesOf, type Entry, writeParts } from "./archive.js";
import { neededGlibc } from "./glibc.js";
import { filesOf, installedPackages } from "./installed.js";
import { readmeText } from "./readme.js";
import { type Target, targetNamed } from "./targets.js";
import { FORMAT, INSIDE, MANIFEST, type Manifest } from "./unpack.mjs";
import { collectWheels, pythonForWheels } from "./wheels.js";

export type PackConfig = Omit<Config<OptionOf<"pack">>, "for" | "out"> & {
  readonly for: Target["name"];
  readonly out: string;
};

const PACK: FolderKind = { name: "pack", list: MANIFEST };

/** Bytes of the Python packages, at most: 0.7 GB were measured, and 2.6 for CUDA 13; CUDA 12 is assumed to need more. */
const WHEELS_BYTES = { cpu: 1.5e9, cuda12: 5e9, cuda13: 4e9 };

const LIBRARIES = "@node-llama-cpp/";

/**
 * @throws UsageError for invalid options
 * @throws HoneError when a file is missing, or the disk is too small; nothing is left behind
 */
export async function pack(config: PackConfig, io: ModelIo) {
  const target = targetNamed(config.for);
  const out = resolve(config.out);
  checkPlace(out, config.force, PACK);
  const { version } = await pythonForWheels(config.python);
  // Its own model is part of hone.
  const references = (config.model ?? "tiny").split(",").map((name) => name.trim());
  const models: PortableModel[] = [];
  for (const reference of references.filter((name) => name !== "tiny")) {
    const one = await portableModel(reference, config, io);
    if (models.some(({ name }) => name === one.name)) {
      throw new UsageError(
        `--model ${config.model}: two of them would be ${one.name} there; give each once, by a name of its own`,
      );
    }
    models.push(one);
  }

  const { version: hone } = aboutPackage();
  const packages = await packageEntries(target, io);
  let bytes = 0;
  const files = await writeFolder(
    out,
    config.force,
    async (draft) => {
      const known = dedupe([...projectEntries(hone), ...packages, ...models.flatMap((one) => one.files)]);
      const needRoom = (room: number) => needDisk(dirname(out), room, "the pack", OUT_ELSEWHERE);
      needRoom(archiveBytes(known) + 2 * WHEELS_BYTES[target.build]);
      const wheels = join(draft, WHEELS_FOLDER);
      mkdirSync(wheels);
      await collectWheels({
        ...config,
        folder: wheels,
        build: target.build,
        unsloth: config.learner === "unsloth",
        onProgress: io.log,
        signal: io.signal,
      });
      const names = readdirSync(wheels);
      const packed = names.map((name): Entry => ({ path: `${INSIDE}/wheels/${name}`, file: join(wheels, name) }));
      const entries = [...known, ...packed];
      needRoom(archiveBytes(entries));
      const name = `hone-${hone}-${target.name}`;
      bytes = entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
      io.log(`writing ${entries.length} files in parts of ${config.partSize}`);
      const parts = await writeParts(entries, draft, name, readSize(config.partSize), io.signal);
      const about: Omit<Manifest, "files"> = {
        format: FORMAT,
        target: target.name,
        hone,
        platform: process.platform,
        arch: process.arch,
        node: { abi: process.versions.modules, version: process.versions.node },
        glibc: neededGlibc(entries.flatMap((one) => ("file" in one ? [{ file: one.file, bytes: bytesOf(one) }] : []))),
        python: version.join("."),
        cuda: target.cuda,
        models: models.map((one) => one.name),
        unpacked: { bytes, entries: entries.length },
        parts,
      };
      rmSync(wheels, { recursive: true });
      copyFileSync(join(packageRoot, "dist/src/machine/pack/unpack.mjs"), join(draft, "unpack.mjs"));
      writeFileSync(join(draft, "README.md"), readmeText(about));
      return about;
    },
    PACK,
  );
  return { target: target.name, folder: out, files, models: models.map(({ name }) => name), bytes };
}

/** Two models may share a blob. */
const dedupe = (entries: readonly Entry[]) => [...new Map(entries.map((entry) => [entry.path, entry])).values()];

/** The project folder in the pack: npx finds the command there, and nothing waits for the Hub. */
function projectEntries(version: string): Entry[] {
  const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`;
  return [
    { path: "package.json", text: json({ private: true, type: "module", dependencies: { "@hone-rl/hone": version } }) },
    { path: "hone.config.json", text: json({ hfOffline: true, hfCache: PORTABLE.cache }) },
    { path: "node_modules/.bin/hone", link: "../@hone-rl/hone/dist/src/cli.js" },
  ];
}

/** Hone, the packages that it needs, and the libraries of llama.cpp that the target does. */
async function packageEntries({ libraries }: Target, { log, signal }: ModelIo): Promise<Entry[]> {
  const wanted = new Set(libraries.map((one) => `${LIBRARIES}${one}`));
  const packages = installedPackages(packageRoot, (one) => !one.startsWith(LIBRARIES) || wanted.has(one));
  const there = new Set(packages.map(({ place }) => place.replace(/^.*node_modules\/(?=@)/, "")));
  const lacking = [...wanted].filter((one) => !there.has(one));
  await fetchLibraries(lacking, { onProgress: log, signal });
  packages.push(...lacking.map((one) => ({ place: `node_modules/${one}`, folder: join(librariesFolder(), one) })));
  return packages.flatMap(({ place, folder }) =>
    (place === INSIDE ? ownFiles() : filesOf(folder)).map((path) => ({
      path: `${place}/${path}`,
      file: join(folder, path),
      executable: place === INSIDE && path === "dist/src/cli.js",
    })),
  );
}

/** The files that npm would pack of hone, and those that were compiled on this machine. */
function ownFiles(): string[] {
  const page = join(packageRoot, "dist/web/page.js");
  for (const [file, remedy] of [
    [addonFile(), reinstall()],
    [page, isInstalled() ? reinstall() : "`yarn build`"],
  ] as const) {
    if (!existsSync(file)) throw new HoneError(`${file} of hone is missing: run ${remedy}`);
  }
  const args = ["pack", "--dry-run", "--ignore-scripts", "--json"];
  const { status, stdout, stderr, error } = spawnSync("npm", args, { cwd: packageRoot, encoding: "utf8" });
  if (status !== 0) {
    const why = error?.message ?? stderr.trim().split("\n").at(-1);
    throw new HoneError(`npm, which knows hone's files, cannot be run: ${why}`);
  }
  const [listed] = JSON.parse(stdout) as { files: { path: string }[] }[];
  // The packages that are bundled with hone have places of their own.
  const packed = (listed?.files ?? []).map(({ path }) => path).filter((path) => !path.startsWith("node_modules/"));
  const compiled = existsSync(join(packageRoot, "build/Release")) ? filesOf(packageRoot, "build/Release") : [];
  return [...packed, ...compiled.filter((path) => path.endsWith(".node"))];
}
