/** A person's decisions about the scenarios of a file: each is written at once. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../core/util/errors.js";
import type { Decision, ReviewSource } from "../insight/view/review-server.js";
import { readScenarioFile, type ScenarioRow, writeScenarioFile } from "../scenarios/file.js";

function decided(row: ScenarioRow, decision: Decision): ScenarioRow {
  const { dropped: _, ...kept } = row;
  if (decision.action === "edit") {
    return { ...kept, question: decision.question, answer: decision.answer, reviewed: "edited" };
  }
  if (decision.action === "drop") return { ...kept, reviewed: "dropped", dropped: row.dropped ?? "reviewer" };
  return { ...kept, reviewed: row.reviewed === "edited" ? "edited" : "kept" };
}

/** @throws UsageError where there is no such file */
export function reviewed(given: string): ReviewSource {
  const file = resolve(given);
  if (!existsSync(file))
    throw new UsageError(`scenarios review: there is no file ${file}; \`scenarios generate\` writes such files`);
  readScenarioFile(file);
  return {
    file,
    read: () => readScenarioFile(file),
    decide(decision) {
      // Read again: a generator may have added to it.
      const { kept, dropped } = readScenarioFile(file);
      const before = [...kept, ...dropped].find(({ id }) => id === decision.id);
      if (!before) throw new UsageError(`there is no scenario ${decision.id} in the file any more`);
      const row = decided(before, decision);
      const put = (rows: readonly ScenarioRow[], belongs: boolean) => {
        const others = rows.map((one) => (one.id === row.id ? row : one)).filter((one) => belongs || one.id !== row.id);
        return belongs && !others.includes(row) ? [...others, row] : others;
      };
      writeScenarioFile(file, {
        kept: put(kept, row.dropped === undefined),
        dropped: put(dropped, row.dropped !== undefined),
      });
      return row;
    },
  };
}
