/** What RULER is told to look at. */
import { existsSync, readFileSync } from "node:fs";
import { UsageError } from "../../core/util/errors.js";

const defaultRubric = `- An attempt that reaches the goal scores clearly higher than every attempt that does not.
- Of two attempts that reach it, the one that takes the shorter way (fewer turns, no detours, no failed calls) scores somewhat higher.
- Distances mean something: attempts of nearly the same quality have nearly the same score, a large difference in quality is a large difference in score.
- An attempt that does not reach the goal earns a little for real progress towards it, and nothing for claims that its tool results do not bear out.`;

/** The text of a file, or of hone's own. @throws UsageError when the file is missing or empty */
export function rubricOf(file: string | undefined): string {
  if (file === undefined) return defaultRubric;
  if (!existsSync(file)) throw new UsageError(`--ruler-rubric: there is no file ${file}`);
  const text = readFileSync(file, "utf8").trim();
  if (text === "") throw new UsageError(`--ruler-rubric: ${file} is empty`);
  return text;
}
