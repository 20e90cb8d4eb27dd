/**
 * The data of the page: the answers of the live server and the content of a report file. The page's source uses these types.
 */

import type { Device, RolloutPhase, StepRow, ValidationRow } from "../../core/run/records.js";
import type { LogTail } from "../../machine/runs/reader.js";
import type { Matrix } from "../report/matrix.js";
import type { bodyOf, rowOf, tokensOf } from "./rows.js";

/** A run without its rollouts. */
export interface RunView {
  /** Its index among the runs of the page. */
  readonly id: number;
  readonly name: string;
  readonly project: string;
  readonly folder: string;
  /** The error message where the run cannot be read; the other fields are then empty. */
  readonly problem: string | null;
  readonly created: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** Of these the ones that are not the defaults, as they are typed: " --steps 3". */
  readonly given: Readonly<Record<string, string>>;
  /** How hone is called where the page comes from: "yarn hone". */
  readonly program: string;
  /** What commands need to find the run: " --home FOLDER", or nothing. */
  readonly home: string;
  readonly contents: Readonly<Record<string, string>>;
  readonly devices: readonly Device[];
  readonly steps: readonly StepRow[];
  readonly validations: readonly ValidationRow[];
  readonly checkpoints: readonly { readonly step: number; readonly damage: string | null }[];
  /** A process is working on it. */
  readonly running: boolean;
  readonly logs: readonly LogTail[];
  /** Numbers of rollouts by phase and step. */
  readonly counts: readonly { readonly phase: RolloutPhase; readonly step: number; readonly n: number }[];
  /** Differs after every change of the run. */
  readonly revision: string;
}

/** One rollout in the table. */
export type Row = ReturnType<typeof rowOf>;

export interface Rows {
  readonly rows: readonly Row[];
  /** Questions by scenario. */
  readonly questions: Readonly<Record<string, string>>;
  /** The first step of the next request; null after the last. */
  readonly next: number | null;
}

/** Tokens of one rollout. */
export type Tokens = ReturnType<typeof tokensOf>;

/** One rollout as it is read. */
export type Body = ReturnType<typeof bodyOf>;

/** Bytes of tokens by id, one character per byte. */
export type Pieces = Readonly<Record<number, string>>;

export interface BodyAnswer {
  readonly body: Body;
  /** Empty where the model file is missing: ids are shown instead. */
  readonly pieces: Pieces;
}

/** The part of a report file about one run, besides its `RunView`, which is read first, and the chunks with its rollouts. */
export interface ReportRun {
  readonly rows: Rows;
  /** Number of the chunk with a rollout's body, by its id. */
  readonly chunks: Readonly<Record<number, number>>;
  readonly pieces: Pieces;
}

/** Facts about a report file. */
export interface ReportAbout {
  readonly made: string;
  readonly runs: number;
  /** Characters of a text that the file keeps. */
  readonly textLimit: number;
}

/** The page of an evaluation. */
export interface SeenMatrix extends Matrix {
  readonly made: string;
}
