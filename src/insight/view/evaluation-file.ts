/** An evaluation as one HTML file: the page of a report with other data. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { writeDurably } from "../../core/util/files.js";
import { cutText } from "../../core/util/text.js";
import type { Matrix } from "../report/matrix.js";
import { pageOf } from "./page.js";
import type { SeenMatrix } from "./wire.js";

/** Characters of a question at most. */
const QUESTION = 400;

/** @throws HoneError when the file cannot be written, or the page has not been built */
export function writeEvaluation(matrix: Matrix, file: string): void {
  const content: SeenMatrix = {
    ...matrix,
    scenarios: matrix.scenarios.map((one) => ({ ...one, question: cutText(one.question, QUESTION) })),
    made: new Date().toISOString(),
  };
  const title = `${matrix.columns.map((column) => column.title).join(", ")} · hone eval`;
  const { html } = pageOf(title, "none", [{ id: "evaluation", content }]);
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeDurably(file, html);
  } catch (error) {
    throw new HoneError(`--page ${file} cannot be written: ${messageOf(error)}`, { cause: error });
  }
}
