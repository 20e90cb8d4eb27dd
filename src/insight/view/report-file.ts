/** A report: runs as one HTML file that opens from disk, with all metrics and a sample of the rollouts. */
import { deflateRawSync } from "node:zlib";
import { HoneError } from "../../core/util/errors.js";
import type { SeenRollout } from "../../machine/runs/reader.js";
import { type PageData, writePage } from "./page.js";
import { bodyOf } from "./rows.js";
import type { SeenRun } from "./runs.js";
import { sampleOf } from "./sample.js";
import type { Body, ReportAbout, ReportRun, RunView } from "./wire.js";

/** Size limit of the file in bytes; rollouts that would exceed it are left out. */
const MOST_BYTES = 30e6;
/** Reserve for the page's own script and style, and the overhead of base64 and elements. */
const ROOM = 1e6;
/** Rollouts in one compressed chunk, which is decompressed as a whole. */
const IN_CHUNK = 32;
/** Characters of one text at most. */
const TEXT = 20_000;

const deflate = (value: object) => deflateRawSync(JSON.stringify(value), { level: 6 });
const inBase64 = (bytes: number) => Math.ceil(bytes / 3) * 4;

/** Bodies in chunks, as many as there is room for. */
function chunksOf(run: SeenRun, wanted: readonly number[], room: number, first: number) {
  const data: PageData[] = [];
  const chunks: Record<number, number> = {};
  const embedded: SeenRollout[] = [];
  const reader = run.reader;
  let bytes = 0;
  let size = IN_CHUNK;
  for (let at = 0; reader && at < wanted.length; ) {
    const ids = wanted.slice(at, at + size);
    const rollouts = [...reader.rollouts({ ids })];
    const bodies: Body[] = rollouts.map((rollout) => bodyOf(rollout, TEXT));
    const content = deflate(bodies);
    if (bytes + inBase64(content.length) > room) {
      if (ids.length === 1) break;
      // The first of them may fit alone.
      size = ids.length >> 1;
      continue;
    }
    at += ids.length;
    bytes += inBase64(content.length);
    const chunk = first + data.length;
    data.push({ id: `chunk-${chunk}`, content });
    for (const { id } of rollouts) chunks[id] = chunk;
    embedded.push(...rollouts);
  }
  return { data, chunks, bytes, embedded };
}

/**
 * @param sample number of rollouts, over all runs, whose conversations are included
 * @param most size of the file in bytes at most
 * @throws HoneError when a run cannot be read, the file cannot be written, or the page has not been built
 */
export async function writeReport(runs: readonly SeenRun[], file: string, sample: number, most = MOST_BYTES) {
  const data: PageData[] = [];
  let left = most - ROOM;
  const views: RunView[] = [];
  const parts: ReportRun[] = [];
  let rollouts = 0;
  let embedded = 0;
  for (const run of runs) {
    const view = await run.view();
    if (view.problem !== null) throw new HoneError(view.problem);
    const rows = run.rows(0, Number.POSITIVE_INFINITY);
    left -= inBase64(deflate({ view, rows }).length);
    const share = Math.ceil(sample / runs.length);
    const wanted = sampleOf(rows.rows, share).map(({ id }) => id);
    const made = chunksOf(run, wanted, left / (runs.length - parts.length), data.length);
    left -= made.bytes;
    data.push(...made.data);
    rollouts += rows.rows.length;
    embedded += made.embedded.length;
    views.push(view);
    parts.push({ rows, chunks: made.chunks, pieces: await run.pieces(made.embedded) });
  }
  const about: ReportAbout = { made: new Date().toISOString(), runs: runs.length, textLimit: TEXT };
  const title = `${runs.map(({ name }) => name).join(", ")} · hone`;
  const bytes = writePage("--out", file, title, [
    { id: "about", content: about },
    ...views.map((view, i) => ({ id: `view-${i}`, content: deflate(view) })),
    ...parts.map((part, i) => ({ id: `run-${i}`, content: deflate(part) })),
    ...data,
  ]);
  // Of the rollouts those are embedded whose conversations are in the file.
  return { file, bytes, runs: runs.length, rollouts, embedded };
}
