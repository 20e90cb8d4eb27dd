/** A copy of hone in a folder of its own, in which one fault at a time is put in and taken out. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { transformWithEsbuild } from "vite";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Patch } from "./fault.js";

const COPIED = [
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
  "src",
  "test",
  "bench",
  "dist/src",
  "native/learner",
  "native/engine",
  "binding.gyp",
  "scripts",
];
/** Faults change nothing in these. */
const LINKED = ["node_modules", "models", "native/tracker", "pyproject.toml", "requirements.lock"];
/** The addon and what its compiler leaves: a fault of the engine compiles it again. All else of `build/` is linked. */
const COMPILED = /^(Release|addon-stamp|Makefile|.*\.mk|.*\.Makefile|config\.gypi)$/;
const ADDON = ["build/Release/hone_engine.node", "build/addon-stamp"];

/** @throws Error when the text is not there once: the source has changed, and the fault must be written anew */
export function patched(text: string, { file, find, replace }: Patch): string {
  const parts = text.split(find);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times, not once: ${find}`);
  return parts.join(replace);
}

/** @throws Error when the changed text is no TypeScript */
export const compiled = async (text: string, file: string): Promise<string> =>
  (await transformWithEsbuild(text, file, { target: "es2023", sourcemap: false })).code;

export class Checkout {
  readonly folder: string;

  /** @param folder is made anew */
  constructor(folder: string) {
    this.folder = folder;
    rmSync(folder, { recursive: true, force: true });
    const build = readdirSync(join(packageRoot, "build")).map((name) => `build/${name}`);
    const compiled = build.filter((name) => COMPILED.test(name.slice("build/".length)));
    for (const name of [...COPIED, ...compiled]) {
      cpSync(join(packageRoot, name), join(folder, name), {
        recursive: true,
        preserveTimestamps: true,
        filter: (path) => !path.includes("__pycache__"),
      });
    }
    for (const name of [...LINKED, ...build.filter((name) => !compiled.includes(name) && name !== "build/prove")]) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      symlinkSync(join(packageRoot, name), join(folder, name));
    }
  }

  /** Does the work while the fault is in. */
  async with<T>(patches: readonly Patch[], work: () => Promise<T>): Promise<T> {
    const native = patches.some(({ file }) => file.startsWith("native/engine/"));
    const changed = patches.map((patch) => {
      const output = patch.file.endsWith(".ts") ? [join("dist", patch.file.replace(/\.ts$/, ".js"))] : [];
      return { patch, files: [patch.file, ...output].map((file) => join(this.folder, file)) };
    });
    const files = [
      ...changed.flatMap((one) => one.files),
      ...(native ? ADDON : []).map((name) => join(this.folder, name)),
    ];
    const saved = files.map((file) => [file, readFileSync(file)] as const);
    try {
      for (const { patch, files } of changed) {
        const [source, output] = files as [string, string | undefined];
        const after = patched(readFileSync(source, "utf8"), patch);
        writeFileSync(source, after);
        if (output !== undefined) writeFileSync(output, await compiled(after, patch.file));
      }
      if (native) this.#compile();
      return await work();
    } finally {
      for (const [file, bytes] of saved) writeFileSync(file, bytes);
    }
  }

  /** @throws Error when the changed engine does not compile */
  #compile(): void {
    const { status, stderr } = spawnSync(process.execPath, ["scripts/build-addon.mjs"], {
      cwd: this.folder,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`the changed engine does not compile: ${stderr}`);
  }
}
