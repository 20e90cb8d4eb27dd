/**
 * The data-set file of generated or imported scenarios, and beside it the file of those that were dropped, each with its reason.
 * A person's decisions (`reviewed`) are kept when the file is made again.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { HoneError } from "../core/util/errors.js";
import { writeDurably } from "../core/util/files.js";
import { parseJson, toJson } from "../core/util/json.js";

const rowSchema = z.looseObject({
  id: z.string().min(1),
  split: z.enum(["train", "test"]),
  question: z.string(),
  answer: z.string(),
  /** What a person did with it. */
  reviewed: z.enum(["kept", "edited", "dropped"]).optional(),
  /** Why it was dropped. */
  dropped: z.string().optional(),
});

/** One scenario; further fields are its task's, its evidence and its provenance. */
export type ScenarioRow = z.output<typeof rowSchema>;

/** The file of dropped scenarios that belongs to a file: they are no scenarios for training. */
export const droppedFileOf = (file: string) => file.replace(/(\.jsonl)?$/, ".dropped.jsonl");

/** @throws HoneError for a file of something else */
function readRows(file: string): ScenarioRow[] {
  if (!existsSync(file)) return [];
  const ids = new Set<string>();
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line, i) => {
      if (line.trim() === "") return [];
      let value: unknown;
      try {
        value = parseJson(line.trim());
      } catch {
        throw new HoneError(`${file} line ${i + 1} is not JSON; each line is one scenario`);
      }
      const parsed = rowSchema.safeParse(value);
      if (parsed.success) {
        const { id } = parsed.data;
        if (ids.has(id)) throw new HoneError(`${file} line ${i + 1} has the id ${id}, which another line has too`);
        ids.add(id);
        return [parsed.data];
      }
      const [issue] = parsed.error.issues;
      throw new HoneError(
        `${file} line ${i + 1} is no scenario with its answer: ${issue?.path.join(".")}: ${issue?.message}`,
      );
    });
}

export interface ScenarioFile {
  readonly kept: readonly ScenarioRow[];
  readonly dropped: readonly ScenarioRow[];
}

export function readScenarioFile(file: string): ScenarioFile {
  const kept = readRows(file);
  const ids = new Set(kept.map(({ id }) => id));
  // One that was moved is in both for a moment: see writeScenarioFile.
  return { kept, dropped: readRows(droppedFileOf(file)).filter(({ id }) => !ids.has(id)) };
}

const linesOf = (rows: readonly ScenarioRow[]) => rows.map((row) => `${toJson(row)}\n`).join("");

/**
 * Writes both files: the one that a scenario moves to before the one that it leaves, so that none is lost where the process is
 * killed between them. It is then in both, and counts as kept.
 */
export function writeScenarioFile(file: string, { kept, dropped }: ScenarioFile): void {
  mkdirSync(dirname(file), { recursive: true });
  const aside = droppedFileOf(file);
  const before = new Set(readRows(file).map(({ id }) => id));
  const writeDropped = () => {
    if (dropped.length > 0 || existsSync(aside)) writeDurably(aside, linesOf(dropped));
  };
  const isGrowing = kept.some(({ id }) => !before.has(id));
  if (!isGrowing) writeDropped();
  writeDurably(file, linesOf(kept));
  if (isGrowing) writeDropped();
}

/**
 * The new rows, each id once, with those of the old ones in their place that a person decided about; such rows are never lost.
 * Of a candidate that was written twice the first is kept, and what the second was dropped for is its likeness to the first.
 */
export function withReviews(fresh: readonly ScenarioRow[], before: ScenarioFile): ScenarioFile {
  const decided = [...before.kept, ...before.dropped].filter(({ reviewed }) => reviewed);
  const { kept, dropped } = sorted(fresh);
  // In the order of the first that are named here; of one id the last counts.
  return sorted([...new Map([...kept, ...dropped, ...kept, ...decided].map((row) => [row.id, row])).values()]);
}

const sorted = (rows: readonly ScenarioRow[]): ScenarioFile => ({
  kept: rows.filter(({ dropped }) => dropped === undefined),
  dropped: rows.filter(({ dropped }) => dropped !== undefined),
});
