/**
 * `yarn gpu-check --first`: what matters most on a card that hone has never run on, in 45 minutes. After each section it
 * writes one file of all results, which names no folder of the user's, and one page.
 */
import { renameSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import type { CheckGpu } from "./context.js";
import { type First, firstPage, type Outcome } from "./first-page.js";
import { type FirstSection, firstPlan } from "./first-sections.js";
import { runSection, sectionFile } from "./run-section.js";

/** Minutes of all sections together. */
export const FIRST_MINUTES = 45;
/** A section is not begun with less time than this, in minutes. */
const LEAST = 0.2;
/** That of another section is the same in all of them. */
const COMMON = ["section", "gpu", "rehearsal", "hardware", "versions"];

export interface FirstOptions {
  readonly gpu: CheckGpu;
  readonly small: boolean;
  /** For all files. */
  readonly out: string;
  /** Also what is done. */
  readonly again: boolean;
  readonly minutes: number;
  /** Replaced in tests. */
  readonly plan?: readonly FirstSection[];
}

/** Without the user's name and folders, which results may have in paths. */
export function withoutFolders(text: string): string {
  const folders: [string, string][] = [
    [packageRoot, "HONE"],
    [tmpdir(), "TMP"],
    [homedir(), "HOME"],
  ];
  return folders.reduce((now, [folder, name]) => (folder === "/" ? now : now.replaceAll(folder, name)), text);
}

function write(file: string, text: string): void {
  writeFileSync(`${file}.part`, text);
  renameSync(`${file}.part`, file);
}

/** The results of a section, and how it ended: `came` says so of this call, its file of an earlier one. */
function outcomeOf(file: string, came: string | undefined): Outcome {
  const found = sectionFile(file);
  const state = came ?? (found?.state === "unfinished" ? "broken off" : found?.state) ?? "not yet";
  if (!found || came === "left out") return { state };
  const own = Object.fromEntries(Object.entries(found).filter(([key]) => !COMMON.includes(key)));
  return { ...(own as object), state };
}

/** @throws HoneError when a section did not end well, after all of them */
export async function runFirst(options: FirstOptions): Promise<void> {
  const { gpu, small, out, again, minutes, plan = firstPlan } = options;
  const fileOf = (name: string) => join(out, `${name}.json`);
  const began = performance.now();
  const about = {
    what: "hone gpu-check --first",
    began: new Date().toISOString(),
    device: gpu === false ? "cpu" : gpu,
    small,
    standIn: process.env.NULLCUDA_CARD !== undefined,
    hardware: hardwareOf(undefined),
    versions: versionsOf(undefined),
  } as const;
  const came: Record<string, string> = {};
  const [results, page] = [join(out, "first.json"), join(out, "first.html")];
  const publish = () => {
    const sections = Object.fromEntries(
      plan.map(({ section: { name } }) => [name, outcomeOf(fileOf(name), came[name])]),
    ) as First["sections"];
    const first: First = JSON.parse(withoutFolders(JSON.stringify({ ...about, sections })));
    write(results, `${JSON.stringify(first, null, 2)}\n`);
    write(page, firstPage(first));
  };
  publish();
  for (const { section, minutes: own } of plan) {
    const { name } = section;
    const file = fileOf(name);
    if (!again && sectionFile(file)?.state === "done") {
      console.log(`${name}: done before`);
      continue;
    }
    const left = minutes - (performance.now() - began) / 60_000;
    if (left < LEAST) came[name] = "left out";
    else {
      const most = Math.min(own, left);
      console.log(`${name}: ${section.about} (at most ${Number(most.toFixed(1))} minutes)`);
      came[name] = await runSection({ section, file, gpu, small, minutes: most });
    }
    console.log(`${name}: ${came[name]}`);
    publish();
  }
  console.log(`\nto send: ${results}\nto read: ${page}`);
  const unfinished = Object.values(came).filter((how) => how !== "done").length;
  if (unfinished > 0) throw new HoneError(`${unfinished} of ${plan.length} sections did not end well`);
}
