/** The one file of `yarn gpu-check`: what each section came to, for a machine, a set of versions and a state of the code. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import { lookAtNvidia } from "../../src/engine/device/nvidia.js";
import { pinned } from "../../src/machine/python/declared.js";
import { type Hardware, hardwareOf, slugOf, versionsOf } from "../hardware.js";
import { resultsFile } from "../results.js";
import type { NOT_COUNTABLE } from "./context.js";

/** Of a section, beside what it measured. One that is `running` in a file that nobody writes was killed. */
export interface Outcome {
  readonly state: "running" | "done" | "failed" | typeof NOT_COUNTABLE | "left out";
  readonly seconds?: number;
  /** In one line. */
  readonly problem?: string;
}

/** A file with another one's is not gone on with. */
export interface Key {
  readonly device: "cuda" | "vulkan" | "cpu";
  /** Tiny shapes: figures say nothing about speed. */
  readonly small: boolean;
  /** The card is a stand-in that does not compute. */
  readonly standIn: boolean;
  readonly hardware: Hardware;
  readonly versions: Readonly<Record<string, string>>;
}

export interface Checked extends Key {
  readonly what: "yarn gpu-check";
  readonly began: string;
  /** By name, in the order in which they ended. */
  readonly sections: Readonly<Record<string, Outcome>>;
}

/** What a measurement depends on, of a checkout. */
const CODE = ["src", "native", "bench", ":!bench/results", "package.json", "requirements.lock"];

/** The last commit of the code, with a hash of what was changed since; "none" of an installed package. */
function commitOf(): string {
  const git = (...args: string[]) =>
    spawnSync("git", ["-C", packageRoot, ...args, "--", ...CODE], { encoding: "utf8", maxBuffer: 2 ** 28 }).stdout ??
    "";
  const [commit, changes] = [git("log", "-1", "--format=%h").trim(), git("diff", "HEAD")];
  if (commit === "") return "none";
  const changed = createHash("sha256").update(changes).digest("hex").slice(0, 8);
  return changes === "" ? commit : `${commit}, changed: ${changed}`;
}

export function keyOf(device: Key["device"], small: boolean): Key {
  const { driver } = lookAtNvidia();
  const learner = ["", "unsloth-cpu", "vllm"].flatMap((extra) => [...pinned(extra || undefined)]);
  const named = learner.filter(([name]) => /^(torch|transformers|peft|trl|unsloth|vllm)$/.test(name));
  const bare = named.map(([name, version]) => [name, version.split(";")[0] as string] as const);
  return {
    device,
    small,
    standIn: process.env.NULLCUDA_CARD !== undefined,
    hardware: hardwareOf(undefined),
    versions: {
      ...versionsOf(undefined),
      commit: commitOf(),
      ...(driver === undefined ? {} : { driver }),
      ...Object.fromEntries(bare),
    },
  };
}

/** What is no measurement of a card is no result either: it lies in build/. */
export const isRehearsal = ({ device, small, standIn }: Key) => device !== "cuda" || small || standIn;

/** Without the user's name and folders, which results may have in paths. */
export function withoutFolders(text: string): string {
  const folders: [string, string][] = [
    [packageRoot, "HONE"],
    [tmpdir(), "TMP"],
    [homedir(), "HOME"],
  ];
  return folders.reduce((now, [folder, name]) => (folder === "/" ? now : now.replaceAll(folder, name)), text);
}

const read = (file: string) => JSON.parse(readFileSync(file, "utf8")) as Checked;
const same = (a: Key, b: Key) =>
  (["device", "small", "standIn", "hardware", "versions"] as const).every(
    (name) => JSON.stringify(a[name]) === JSON.stringify(b[name]),
  );

/** The file of one key; each change is on the disk at once. */
export class Results {
  readonly file: string;
  #now: Checked;

  /** Goes on with the newest file of this key in the folder; without one it begins another. */
  constructor(key: Key, folder: string) {
    const kind = isRehearsal(key) ? "gpu-check-rehearsal" : "cuda";
    const first = resultsFile(kind, key.hardware, 1, folder);
    const earlier = readdirSync(folder)
      .filter((name) => name.startsWith(`${kind}-`) && name.includes(slugOf(key.hardware)) && name.endsWith(".json"))
      .sort()
      .reverse()
      .map((name) => join(folder, name))
      .find((file) => read(file).what === "yarn gpu-check" && same(read(file), key));
    let file = earlier ?? first;
    for (let part = 2; earlier === undefined && existsSync(file); part++)
      file = resultsFile(kind, key.hardware, part, folder);
    this.file = file;
    this.#now = earlier
      ? read(earlier)
      : { what: "yarn gpu-check", began: new Date().toISOString(), ...key, sections: {} };
  }

  get now(): Checked {
    return this.#now;
  }

  /** What a section came to, and measured. */
  set(section: string, outcome: Outcome): void {
    const { [section]: _, ...others } = this.#now.sections;
    const next = { ...this.#now, sections: { ...others, [section]: outcome } };
    this.#now = JSON.parse(withoutFolders(JSON.stringify(next))) as Checked;
    writeFileSync(`${this.file}.part`, `${JSON.stringify(this.#now, null, 2)}\n`);
    renameSync(`${this.file}.part`, this.file);
  }
}
