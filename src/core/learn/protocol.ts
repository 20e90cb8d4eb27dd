/**
 * The protocol between parent and learner: one JSON object per line, requests on the child's file descriptor 3, reports on
 * its file descriptor 4. stdout and stderr are not part of it: libraries print there, and both go to the log.
 * native/learner/protocol.py is the other side.
 *
 * The child begins: `hello` with its version. Every request has an `id` and ends with one `done` or `error` of that
 * id; `progress` may come before. Closing file descriptor 3 ends the child at once, even during a request.
 * `beat` is sent once a second while the child's interpreter runs.
 */
import { z } from "zod";

/** Raised when the two sides would misunderstand each other. */
export const PROTOCOL_VERSION = 1;

const hello = z.object({ type: z.literal("hello"), version: z.number(), pid: z.number(), python: z.string() });
/** `progress`: a rank other than the first is at the request's work, and the first may wait for it. */
const beat = z.object({ type: z.literal("beat"), progress: z.boolean().optional() });
const progress = z.object({
  type: z.literal("progress"),
  id: z.number(),
  /** The current work: "loading", "update", "saving". */
  phase: z.string(),
  done: z.number(),
  total: z.number(),
});
const done = z.object({ type: z.literal("done"), id: z.number(), result: z.unknown() });
const failure = z.object({
  type: z.literal("error"),
  /** null when the error belongs to no request. */
  id: z.number().nullable(),
  /** refused: would be refused again. memory: less may work. failed: a defect. protocol: not understood. */
  code: z.enum(["refused", "memory", "failed", "protocol"]),
  message: z.string(),
});

export const report = z.discriminatedUnion("type", [hello, beat, progress, done, failure]);

export type Report = z.output<typeof report>;
export type Progress = Pick<z.output<typeof progress>, "phase" | "done" | "total">;

export type RequestName = "open" | "step" | "sft";

/** Parses one line of the child. Throws an error that quotes any other line. */
export function readReport(line: string): Report {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new Error(`not JSON: ${line.slice(0, 200)}`, { cause: error });
  }
  const parsed = report.safeParse(value);
  if (!parsed.success) throw new Error(`not a known message: ${line.slice(0, 200)}`, { cause: parsed.error });
  return parsed.data;
}
