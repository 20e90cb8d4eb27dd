/** An evaluation as one HTML file: the page of a report with other data. */
import { cutText } from "../../core/util/text.js";
import type { Matrix } from "../report/matrix.js";
import { writePage } from "./page.js";
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
  writePage("--page", file, title, [{ id: "evaluation", content }]);
}
