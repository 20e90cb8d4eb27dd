/** All figures of a run as comma-separated values (RFC 4180): a line for each step. */
import { type MetricsLine, metricsLine, type StepRow, type ValidationRow } from "../../core/run/records.js";

type Cells = ReadonlyMap<string, string>;

/** Figures by path: "ends.answered", "seconds.update". */
function flatten(value: unknown, path: string, into: Map<string, string>): void {
  if (typeof value === "object" && value !== null) {
    for (const [name, one] of Object.entries(value)) flatten(one, path ? `${path}.${name}` : name, into);
  } else into.set(path, value === null || value === undefined ? "" : String(value));
}

const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function cellsOf(step: number, line: MetricsLine | undefined, validation: ValidationRow | undefined): Cells {
  const cells = new Map([["step", String(step)]]);
  if (line) flatten(line, "", cells);
  if (validation) flatten({ ...validation.result, seconds: validation.seconds }, "validation", cells);
  return cells;
}

/** A column for every figure that any step has; a figure that a step lacks is empty. Step 0 has only a validation. */
export function metricsCsv(steps: readonly StepRow[], validations: readonly ValidationRow[]): string {
  const rows = steps
    .map((row) => ({
      row,
      validation: validations.find(({ step }) => step === row.step),
    }))
    .filter(({ row, validation }) => row.metrics !== null || validation !== undefined)
    .map(({ row, validation }) => cellsOf(row.step, row.metrics ? metricsLine(row) : undefined, validation));
  // The figures of steps come first, in their order.
  const names = [...new Set(rows.flatMap((cells) => [...cells.keys()]))];
  const ordered = [
    "step",
    ...names.filter((name) => name !== "step" && !name.startsWith("validation.")),
    ...names.filter((name) => name.startsWith("validation.")),
  ];
  return [ordered, ...rows.map((cells) => ordered.map((name) => cells.get(name) ?? ""))]
    .map((cells) => cells.map(quoted).join(","))
    .join("\n");
}
